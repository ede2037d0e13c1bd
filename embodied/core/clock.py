"""When to do something that is due every so many seconds."""

import time


class Clock:
    """Answers whether it is time again, with one convention everywhere (design, section 3).

    `every` is 0 for never, negative for always (at every call), positive for a period in seconds.
    A period starts at the first call rather than at construction, so that a slow set-up is not
    counted.
    """

    def __init__(self, every: float, first: bool = False) -> None:
        """Create a clock.

        Args:
            every: Seconds between two times that are due; 0 is never, negative is always.
            first: Whether the first call is due already (not if `every` is 0).
        """
        self._every = float(every)
        self._first = first
        self._previous: float | None = None

    def __call__(self) -> bool:
        """Return whether it is due, and if so start the next period."""
        if self._every <= 0:
            return self._every < 0
        now = time.monotonic()
        if self._previous is None:
            self._previous = now
            return self._first
        if now < self._previous + self._every:
            return False
        self._previous = now
        return True
