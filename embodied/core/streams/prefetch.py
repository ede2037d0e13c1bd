"""Elements prepared ahead of time in a thread."""

import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any

from embodied.core.interfaces import State, Stream

#: How long a source that is stuck is waited for, those that it is made of included.
CLOSE_SECONDS = 1.0
LOAD_SECONDS = 5.0


class Prefetch(Stream):
    """Draws and transforms elements ahead, so that they are there when they are asked for.

    The thread starts with the first request. An error of the source or the transform is raised to
    the consumer after the elements before it, with its original traceback, and again at each
    further request; the end of the source is passed on in the same way.
    """

    def __init__(
        self,
        source: Stream,
        transform: Callable[[Any], Any] | None = None,
        amount: int = 1,
        deterministic: bool = False,
    ) -> None:
        """Wrap a stream.

        Args:
            source: Used by the thread alone from the first request on.
            transform: Applied to every element in the thread.
            amount: Elements to hold ready.
            deterministic: Do without the thread and draw each element when it is asked for. What
                an element depends on, such as stored data, then has the same state in every run.

        Raises:
            ValueError: If the amount is not positive.
        """
        if amount < 1:
            raise ValueError(f"Got amount {amount}, expected at least 1.")
        self._source = source
        self._transform = transform
        self._amount = amount
        self._deterministic = deterministic
        self._changed = threading.Condition()
        self._ready: deque[tuple[Any, State]] = deque()
        self._thread: threading.Thread | None = None
        self._state: State = None
        self._error: BaseException | None = None
        self._traceback: TracebackType | None = None
        self._closed = False

    def __next__(self) -> Any:
        """Return the next element.

        Raises:
            StopIteration: At the end of the source, or when the stream was closed.
        """
        if self._closed:
            raise StopIteration
        if self._deterministic:
            return self._produce_now()
        with self._changed:
            if self._thread is None:
                self._state = self._source.save()
                self._thread = threading.Thread(target=self._work, daemon=True, name="prefetch")
                self._thread.start()
            while not self._ready and self._error is None and not self._closed:
                self._changed.wait()
            if self._closed:
                raise StopIteration
            if self._ready:
                element, self._state = self._ready.popleft()
                self._changed.notify_all()
                return element
            assert self._error is not None, "one of the three ends the wait"
            raise self._error.with_traceback(self._traceback)

    def save(self) -> State:
        """Return the position of the source after the last element that was handed out."""
        with self._changed:
            return self._source.save() if self._thread is None else self._state

    def load(self, state: State) -> None:
        """Drop what is prepared and continue at a saved position.

        Raises:
            RuntimeError: If the source is stuck, so that the thread does not let go of it.
        """
        self._stop(LOAD_SECONDS)
        if self._thread is not None and self._thread.is_alive():
            raise RuntimeError("Got load while the source waits, expected one that returns.")
        self._source.load(state)
        self._ready.clear()
        self._thread = self._error = self._traceback = None
        self._closed = False

    def close(self) -> None:
        """Stop the thread and close the source; returns within a second if the source is stuck."""
        if not self._closed:
            self._stop(CLOSE_SECONDS, self._source.close)

    def _stop(self, seconds: float, then: Callable[[], None] | None = None) -> None:
        deadline = time.monotonic() + seconds
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        try:
            # Closing the source may be what wakes a thread that waits in it.
            if then is not None:
                then()
        finally:
            if self._thread is not None and self._thread is not threading.current_thread():
                self._thread.join(max(0.0, deadline - time.monotonic()))

    def _produce(self) -> Any:
        element = next(self._source)
        return element if self._transform is None else self._transform(element)

    def _produce_now(self) -> Any:
        if self._error is not None:
            raise self._error.with_traceback(self._traceback)
        try:
            return self._produce()
        except Exception as error:
            self._error, self._traceback = error, error.__traceback__
            raise

    def _work(self) -> None:
        try:
            while True:
                element = self._produce()
                state = self._source.save()
                with self._changed:
                    self._ready.append((element, state))
                    self._changed.notify_all()
                    while len(self._ready) >= self._amount and not self._closed:
                        self._changed.wait()
                    if self._closed:
                        return
        except BaseException as error:
            with self._changed:
                self._error = error
                self._traceback = error.__traceback__
                self._changed.notify_all()
