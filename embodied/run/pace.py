"""How long the next chunk of a compiled loop should be."""

import numpy as np

#: Seconds that a chunk should take: signals, logs and saves wait for its end.
SECONDS = 2.0
#: Iterations of the first chunk, of which nothing is known.
TRIAL = 16


class Pace:
    """Chooses how many iterations to run at once, from how long earlier ones took.

    How many there are has no influence on what they compute. As long as it is not known how long an
    update takes, a chunk ends after the first iteration that makes some.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        """Create the pace.

        Args:
          seconds: What a chunk should take.
        """
        self._seconds = seconds
        self._per_iteration: float | None = None
        self._per_update: float | None = None

    def choose(self, updates: np.ndarray) -> int:
        """Choose a number of iterations, at least 1.

        Args:
          updates: Updates of each of the iterations that may be run, [M].
        """
        first = int(np.flatnonzero(updates)[0]) + 1 if updates.any() else len(updates)
        if self._per_iteration is None and self._per_update is None:
            return min(first, TRIAL)
        iterations = np.arange(1, len(updates) + 1) * (self._per_iteration or 0.0)
        needed = iterations + np.cumsum(updates) * (self._per_update or 0.0)
        fitting = max(1, int(np.searchsorted(needed, self._seconds, side="right")))
        return min(first, fitting) if self._per_update is None else fitting

    def measure(self, iterations: int, updates: int, seconds: float) -> None:
        """Take in how long a chunk has taken."""
        if not updates:
            self._per_iteration = seconds / iterations
        else:
            collecting = min(iterations * (self._per_iteration or 0.0), seconds)
            self._per_update = (seconds - collecting) / updates
