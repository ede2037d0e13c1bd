"""Learning in a thread while experience is collected."""

import contextlib
import queue
import threading
from collections.abc import Callable

POLL_SECONDS = 0.2


class Background:
    """Calls a function with each step in a thread, a bounded number of steps late.

    What the function raises is raised to the caller of a later step.
    """

    def __init__(self, function: Callable[[int], None], ahead: int) -> None:
        """Start the thread.

        Args:
          function: Makes the updates that are due at a step.
          ahead: Steps that the caller may be ahead.
        """
        self._function = function
        self._steps: queue.Queue[int | None] = queue.Queue(ahead)
        self._closed = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="learner", daemon=True)
        self._thread.start()

    def __call__(self, step: int) -> None:
        """Hand over a step; waits while the function is too far behind.

        Raises:
          BaseException: What the function has raised.
        """
        while True:
            if self._error is not None:
                raise self._error
            with contextlib.suppress(queue.Full):
                self._steps.put(step, timeout=POLL_SECONDS)
                return

    def settle(self) -> None:
        """Wait until the function has caught up.

        Raises:
          BaseException: What the function has raised.
        """
        while self._error is None and self._steps.unfinished_tasks:
            with self._steps.all_tasks_done:
                self._steps.all_tasks_done.wait(POLL_SECONDS)
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End the thread after the call that it is in."""
        self._closed = True
        with contextlib.suppress(queue.Full):
            self._steps.put_nowait(None)
        self._thread.join(5)

    def _work(self) -> None:
        while not self._closed and self._error is None:
            step = self._steps.get()
            try:
                if step is not None and not self._closed:
                    self._function(step)
            except BaseException as error:
                self._error = error
            finally:
                self._steps.task_done()
