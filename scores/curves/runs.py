"""Runs as the scripts see them: who they are, and their scores over time."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scores.curves.notes import Notes

Floats = NDArray[np.float64]

EVAL_SUFFIX = " (eval)"


@dataclass(frozen=True)
class Run:
    """Scores of one seed of one method on one task.

    Attributes:
      task: Task name with suite prefix, such as `dmc_walker_walk`.
      method: Method name, without the mark of the evaluation series.
      seed: Seed as text; score files hold numbers or strings.
      xs: Float64 [P], position of each score in environment frames (or the chosen axis),
        never decreasing.
      ys: Float64 [P], finite scores.
      series: `train` or `eval`.
      benchmark: Protocol if known, such as `dmc_proprio`; the same task is in several.
      repeat: Environment frames per agent step, 0 where unknown.
      source: File or folder that the scores come from.
      folder: The run folder, None for runs that come from a score file.
    """

    task: str
    method: str
    seed: str
    xs: Floats
    ys: Floats
    series: str = "train"
    benchmark: str = ""
    repeat: int = 0
    source: str = ""
    folder: Path | None = None

    @property
    def label(self) -> str:
        """Name in legends and tables; training and evaluation series differ."""
        return self.method + EVAL_SUFFIX if self.series == "eval" else self.method

    @property
    def suite(self) -> str:
        """Part of the task name before the first underscore, see `suite_of`."""
        return suite_of(self.task)

    @property
    def end(self) -> float:
        """Position of the last score."""
        return float(self.xs[-1])


def suite_of(task: str) -> str:
    """Return the suite of a task: `dmc_walker_walk` -> `dmc`; a task by import path is its own."""
    return task if ":" in task else task.split("_", 1)[0]


def run_order(run: Run) -> tuple[object, ...]:
    """Sort key by label, task and seed."""
    return natural_key(run.label), natural_key(run.task), natural_key(run.seed), len(run.xs)


def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key that orders digits inside a text by value: seed 2 comes before seed 10."""
    parts = re.findall(r"\d+|\D+", text)
    return tuple((0, int(p), "") if p.isdecimal() else (1, 0, p) for p in parts)


@dataclass
class Skipped:
    """Counts of the entries of one source that are not used.

    Attributes:
      missing: Entries that are null, NaN or infinite.
      repeated: Entries that a resumed run recorded again.
    """

    missing: int = 0
    repeated: int = 0

    def note(self, source: str, notes: Notes) -> None:
        """Remark on what was skipped in a source, if anything was."""
        if self.missing:
            notes.add(f"{source}: skipped {self.missing} scores that are null, NaN or infinite")
        if self.repeated:
            notes.add(
                f"{source}: steps go back (a run was resumed), the later recording replaces "
                f"{self.repeated} scores"
            )


def clean_scores(xs: list[object], ys: list[object], skipped: Skipped) -> tuple[Floats, Floats]:
    """Turn raw records into plottable arrays.

    Missing values (null, NaN, infinity) are dropped. Where the step goes back, the run was
    resumed from an older checkpoint: what was recorded before and lies at or after the step it
    went back to is dropped, because that part of the training was done again.

    Args:
      xs: Raw steps; numbers, None, or texts such as 'nan'.
      ys: Raw scores, as many as `xs`.
      skipped: Its counts are raised by what was dropped.

    Returns:
      Steps and scores, float64 [P].
    """
    steps, scores = _numbers(xs), _numbers(ys)
    finite = np.isfinite(steps) & np.isfinite(scores)
    skipped.missing += int((~finite).sum())
    steps, scores = steps[finite], scores[finite]
    keep = last_pass(steps)
    skipped.repeated += int((~keep).sum())
    return steps[keep], scores[keep]


def last_pass(steps: Floats) -> NDArray[np.bool_]:
    """Mark the entries that no later resume has replaced.

    Args:
      steps: Float64 [P] in the order in which they were written.

    Returns:
      Bool [P]; the marked steps never decrease.
    """
    if len(steps) < 2:
        return np.ones(len(steps), bool)
    restarts = np.where(np.diff(steps) < 0, steps[1:], np.inf)
    later_restart = np.minimum.accumulate(restarts[::-1])[::-1]
    return steps < np.append(later_restart, np.inf)


def _numbers(values: list[object]) -> Floats:
    return np.array([_number(value) for value in values], np.float64)


def _number(value: object) -> float:
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            return float(value)
        except (ValueError, OverflowError):
            return float("nan")
    return float("nan")
