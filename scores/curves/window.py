"""The stretch of training whose scores a table averages."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from curves.notes import Notes
from curves.run import Run

START = 0.02  # Share of the last step at which the automatic window starts ...
LIMIT = 0.16  # ... and at which it stops growing.
REACHED = 0.9  # A run that ends before this share is not waited for.


@dataclass(frozen=True)
class Window:
    """Scores with `low < step <= high` count; `suite` says for which tasks."""

    suite: str
    low: float
    high: float

    @property
    def text(self) -> str:
        """The interval for people, in frames."""
        return f"({self.low:.10g}, {self.high:.10g}]"

    def mask(self, run: Run) -> np.ndarray:
        """Mark the scores of a run that are in the window, bool [P]."""
        return (run.xs > self.low) & (run.xs <= self.high)


def choose_window(runs: Sequence[Run], at: float | None, length: float | None) -> Window:
    """Choose the window of a suite.

    Args:
      runs: Runs of one suite.
      at: Last step of the window; None takes the last step that at least half of the methods
        reach.
      length: Length in frames; None starts with 2% of `at` and doubles, up to 16%, until every
        run that gets to 90% of `at` has a score in it.
    """
    high = _common_end(runs) if at is None else at
    suite = runs[0].suite
    if length is not None:
        return Window(suite, high - length, high)
    share = START
    while share < LIMIT:
        window = Window(suite, high - share * high, high)
        if all(window.mask(run).any() for run in runs if run.end >= REACHED * high):
            return window
        share *= 2
    return Window(suite, high - LIMIT * high, high)


def window_mean(run: Run, window: Window, notes: Notes) -> tuple[float, int] | None:
    """Average the scores of a run in a window.

    Args:
      run: Any run.
      window: Where to look.
      notes: Receives a remark if there is no score.

    Returns:
      Mean and number of scores, or None without a score.
    """
    inside = window.mask(run)
    if inside.any():
        return float(run.ys[inside].mean()), int(inside.sum())
    reason = f"ends at {run.end:.10g}" if run.end <= window.low else "has no score there"
    notes.add(
        f"{run.label} on {run.task}, seed {run.seed}: {reason}, not in the window {window.text}"
    )
    return None


def _common_end(runs: Sequence[Run]) -> float:
    ends: dict[str, float] = {}
    for run in runs:
        ends[run.label] = max(ends.get(run.label, 0.0), run.end)
    ordered = sorted(ends.values(), reverse=True)
    return ordered[(len(ordered) + 1) // 2 - 1]
