"""Final scores per task and method over a window of frames, and their summaries over tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scores.curves.baselines import Baselines, Reference, Suite
from scores.curves.notes import Notes, ScoresError
from scores.curves.runs import Floats, Run, natural_key
from scores.curves.statistics import (
    AGGREGATES,
    aggregate_title,
    interval_over_seeds,
    mean_over_seeds,
    summarise_suite,
)

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

    def mask(self, run: Run) -> NDArray[np.bool_]:
        """Mark the scores of a run that are in the window, bool [P]."""
        return (run.xs > self.low) & (run.xs <= self.high)


@dataclass(frozen=True)
class Cell:
    """Score of one method in one row.

    Attributes:
      mean: Mean over seeds of each run's mean score in the window, or an aggregate of these.
      low: Lower end of the interval, NaN where there is none.
      high: Upper end.
      seeds: Number of seeds; in an aggregate the smallest number that a task has.
      scores: Number of scores in the window, all seeds together.
    """

    mean: float
    low: float
    high: float
    seeds: int
    scores: int


@dataclass(frozen=True)
class Row:
    """One task or one aggregate.

    Attributes:
      name: Task name, or a title such as `task mean`.
      window: Where the scores were taken.
      cells: Label -> cell, for the labels that have scores there.
      reference: Published score, None where there is none.
      aggregate: Whether the row summarises several tasks.
      normalised: Whether it is in units of the expert's score.
    """

    name: str
    window: Window
    cells: Mapping[str, Cell]
    reference: float | None = None
    aggregate: bool = False
    normalised: bool = False


@dataclass(frozen=True)
class ScoreTable:
    """Rows, the labels of their columns, and the published column if there is one."""

    rows: tuple[Row, ...]
    labels: tuple[str, ...]
    windows: tuple[Window, ...]
    interval: str
    reference: Reference | None = None


@dataclass(frozen=True)
class TableOptions:
    """What the table shows.

    Attributes:
      at: Step at which the window ends; None takes the last one that at least half of the
        methods reach.
      window: Length of the window in frames; None widens it until it holds scores of each run.
      interval: Key of `statistics.INTERVALS`.
      aggregates: Keys of `AGGREGATES`; None takes those of the suite.
      resamples: Number of bootstrap draws.
      reference: Name of a published table, `auto` or `none`.
    """

    at: float | None = None
    window: float | None = None
    interval: str = "std"
    aggregates: tuple[str, ...] | None = None
    resamples: int = 1000
    reference: str = "auto"


def make_table(
    runs: Sequence[Run],
    labels: Sequence[str],
    baselines: Baselines,
    options: TableOptions,
    notes: Notes,
) -> ScoreTable:
    """Compute the table.

    Args:
      runs: Runs on the frames axis.
      labels: Labels in the order of the columns.
      baselines: Random and expert scores and published tables.
      options: Window, interval, aggregates, reference.
      notes: Receives a remark for each run without a score in the window.

    Raises:
      ScoresError: No run has a score in the window, or the reference is unknown.
    """
    reference = _find_reference(runs, baselines, options.reference)
    rows: list[Row] = []
    windows = []
    for name in sorted({run.suite for run in runs}, key=natural_key):
        members = [run for run in runs if run.suite == name]
        window = choose_window(members, options.at, options.window)
        finals = _finals(members, labels, window, notes)
        if finals:
            windows.append(window)
            rows += _task_rows(finals, window, options)
            rows += _aggregate_rows(finals, window, baselines.suite(name), options, notes)
    if not rows:
        raise ScoresError(f"No run has a score in the window; {notes.texts[-1]}.")
    if reference is not None:
        rows = [_with_reference(row, rows, reference) for row in rows]
    present = {label for row in rows for label in row.cells}
    kept = tuple(label for label in labels if label in present)
    return ScoreTable(tuple(rows), kept, tuple(windows), options.interval, reference)


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


def _common_end(runs: Sequence[Run]) -> float:
    ends: dict[str, float] = {}
    for run in runs:
        ends[run.label] = max(ends.get(run.label, 0.0), run.end)
    ordered = sorted(ends.values(), reverse=True)
    return ordered[(len(ordered) + 1) // 2 - 1]


Finals = dict[str, dict[str, list[tuple[float, int]]]]  # Label -> task -> (mean, scores) per seed.


def _finals(runs: Sequence[Run], labels: Sequence[str], window: Window, notes: Notes) -> Finals:
    finals: Finals = {}
    for label in labels:
        for run in runs:
            if run.label == label and (found := _window_mean(run, window, notes)) is not None:
                finals.setdefault(label, {}).setdefault(run.task, []).append(found)
    return finals


def _window_mean(run: Run, window: Window, notes: Notes) -> tuple[float, int] | None:
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


def _values(seeds: Sequence[tuple[float, int]]) -> Floats:
    """Scores as float64 [S, 1], the form of curves with one position."""
    return np.array([[mean] for mean, _ in seeds], np.float64)


def _task_rows(finals: Finals, window: Window, options: TableOptions) -> list[Row]:
    rows = []
    tasks = {task for found in finals.values() for task in found}
    for task in sorted(tasks, key=natural_key):
        cells = {}
        for label, found in finals.items():
            if task in found:
                values = _values(found[task])
                mean, seeds = mean_over_seeds(values)
                low, high = interval_over_seeds(values, options.interval, options.resamples)
                scores = sum(number for _, number in found[task])
                cells[label] = Cell(mean.item(), low.item(), high.item(), seeds.item(), scores)
        rows.append(Row(task, window, cells))
    return rows


def _aggregate_rows(
    finals: Finals, window: Window, suite: Suite, options: TableOptions, notes: Notes
) -> list[Row]:
    keys = suite.aggregates if options.aggregates is None else options.aggregates
    values = {
        label: {task: _values(seeds) for task, seeds in found.items()}
        for label, found in finals.items()
    }
    summaries = summarise_suite(values, keys, window.suite, suite, options.resamples, notes)
    rows = []
    for key, by_label in summaries.items():
        cells = {}
        for label, found in by_label.items():
            numbers = (found.mean.item(), found.low.item(), found.high.item(), found.seeds.item())
            scores = sum(number for task in found.tasks for _, number in finals[label][task])
            cells[label] = Cell(*numbers, scores)
        title = aggregate_title(AGGREGATES[key], suite)
        normalised = AGGREGATES[key].normalised
        rows.append(Row(title, window, cells, aggregate=True, normalised=normalised))
    return rows


def _find_reference(runs: Sequence[Run], baselines: Baselines, name: str) -> Reference | None:
    if name == "none":
        return None
    if name == "auto":
        benchmarks = {run.benchmark for run in runs}
        name = next((key for key in baselines.references if key in benchmarks), "")
        return baselines.references.get(name)
    if name not in baselines.references:
        known = ", ".join(("auto", "none", *baselines.references))
        raise ScoresError(f"There is no reference {name!r}; choose one of {known}.")
    return baselines.references[name]


def _with_reference(row: Row, rows: Sequence[Row], reference: Reference) -> Row:
    """Add the published score; means and medians only over exactly the published tasks."""
    if not row.aggregate:
        return replace(row, reference=reference.scores.get(row.name))
    tasks = {other.name for other in rows if not other.aggregate and other.window == row.window}
    if tasks != set(reference.scores) or row.normalised:
        return row
    scores = list(reference.scores.values())
    published = {"task mean": np.mean(scores), "task median": np.median(scores)}
    value = published.get(row.name)
    return row if value is None else replace(row, reference=float(value))
