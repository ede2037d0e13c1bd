"""Says what a run is doing, so that a silent terminal never leaves one guessing."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Self


class Heartbeat:
    """Prints the phases of the set-up, and whatever takes suspiciously long.

    The main thread names its current activity. When one goes on without change for longer than the
    period, a line says so, and again after each further period.
    """

    def __init__(self, period: float = 30.0) -> None:
        """Create the context manager that runs the watching thread.

        Args:
          period: Seconds.
        """
        self._period = period
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="heartbeat", daemon=True)
        self._activities: list[_Activity] = []

    def __enter__(self) -> Self:
        """Start watching."""
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop watching."""
        self._closed.set()
        self._thread.join()

    @contextlib.contextmanager
    def phase(self, name: str, note: str = "") -> Iterator[None]:
        """Print the start of a phase of the set-up, and its duration when it succeeds.

        Args:
          name: For example `Building the agent`.
          note: Printed at the start only, for example what to expect.
        """
        start = time.perf_counter()
        print(f"{name} ({note}) ..." if note else f"{name} ...", flush=True)
        with self.activity(name):
            yield
        print(f"{name}: done in {time.perf_counter() - start:.1f} s", flush=True)

    @contextlib.contextmanager
    def activity(self, name: str, detail: Callable[[], str] | None = None) -> Iterator[None]:
        """Name what the body does, without printing unless it takes long.

        Args:
          name: For example `waiting for environments`.
          detail: Returns what else to print; called from another thread.
        """
        self._activities.append(_Activity(name, detail))
        try:
            yield
        finally:
            self._activities.pop()
            if self._activities:
                self._activities[-1].restart()

    def doing(self) -> str:
        """Return the current activity, or nothing; from any thread."""
        return "".join(activity.name for activity in list(self._activities)[-1:])

    def _watch(self) -> None:
        while not self._closed.wait(self._period / 3):
            # The list may change at any time; a copy holds together.
            for activity in list(self._activities)[-1:]:
                seconds = activity.overdue(self._period)
                if seconds:
                    detail = f": {activity.detail()}" if activity.detail else ""
                    print(f"Still {activity.name} after {seconds:.0f} s{detail}", flush=True)


class _Activity:
    def __init__(self, name: str, detail: Callable[[], str] | None) -> None:
        self.name = name[:1].lower() + name[1:]
        self.detail = detail
        self.restart()

    def restart(self) -> None:
        self._start = time.monotonic()
        self._lines = 0

    def overdue(self, period: float) -> float:
        """Seconds that the activity has taken if a line is due, else 0."""
        seconds = time.monotonic() - self._start
        if seconds < period * (self._lines + 1):
            return 0
        self._lines = int(seconds / period)
        return seconds
