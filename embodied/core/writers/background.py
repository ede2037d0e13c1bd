"""Serves slow writers from a thread, so that training never waits for a network."""

import contextlib
import queue
import threading
import time
from collections.abc import Sequence

from embodied.core.writers.writer import Record, Writer


class BackgroundWriter(Writer):
    """Hands records to another writer in a thread, in order.

    An error in the thread is raised at the next write, where the logger turns it into a warning.
    When that writer is too far behind, further records are refused with an error.
    """

    def __init__(self, writer: Writer, capacity: int = 100, patience: float = 8.0) -> None:
        """Start the thread.

        Args:
          writer: What does the writing; it is only used in the thread.
          capacity: Writes that may be pending.
          patience: Seconds that closing waits for pending writes.
        """
        self._writer = writer
        self._patience = patience
        self._queue: queue.Queue[Sequence[Record] | None] = queue.Queue(capacity)
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._work, name=f"log-{self.name}", daemon=True)
        self._thread.start()

    @property
    def name(self) -> str:
        """Name of the writer that does the writing."""
        return self._writer.name

    def __call__(self, records: Sequence[Record]) -> None:
        """Queue the records.

        Raises:
          RuntimeError: If too many writes are pending; the records are left out.
          Exception: What went wrong in an earlier write.
        """
        try:
            self._queue.put_nowait(records)
        except queue.Full:
            raise RuntimeError(
                f"{self._queue.maxsize} writes are pending, so newer records are left out"
            ) from None
        self._raise()

    def close(self) -> None:
        """Wait for pending writes and close the writer.

        Raises:
          TimeoutError: If that takes too long; what is pending is lost when the program ends.
          Exception: What went wrong in an earlier write.
        """
        deadline = time.monotonic() + self._patience
        with contextlib.suppress(queue.Full):  # The thread is alive then, see below.
            self._queue.put(None, timeout=self._patience)
        self._thread.join(max(deadline - time.monotonic(), 0))
        if self._thread.is_alive():
            raise TimeoutError(
                f"{self._queue.qsize()} writes are still pending after {self._patience:g} seconds"
            )
        self._raise()

    def _work(self) -> None:
        while (records := self._queue.get()) is not None:
            try:
                self._writer(records)
            except Exception as error:
                self._error = error
        try:
            self._writer.close()
        except Exception as error:
            self._error = error

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error
