"""Final scores per task and method, and their summaries over tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from curves.aggregates import AGGREGATES, aggregate_title, summarise
from curves.baselines import Baselines, Reference, Suite
from curves.coverage import comparable, with_baselines
from curves.errors import ScoresError
from curves.notes import Notes
from curves.run import Floats, Run, natural_key
from curves.statistics import interval_over_seeds, mean_over_seeds
from curves.window import Window, choose_window, window_mean


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
      interval: Key of `curves.statistics.INTERVALS`.
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


Finals = dict[str, dict[str, list[tuple[float, int]]]]  # Label -> task -> (mean, scores) per seed.


def _finals(runs: Sequence[Run], labels: Sequence[str], window: Window, notes: Notes) -> Finals:
    finals: Finals = {}
    for label in labels:
        for run in runs:
            if run.label == label and (found := window_mean(run, window, notes)) is not None:
                finals.setdefault(label, {}).setdefault(run.task, []).append(found)
    return finals


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
    covered, labels = comparable(
        {label: set(found) for label, found in finals.items()}, window.suite, notes
    )
    rows = []
    for key in keys:
        aggregate = AGGREGATES[key]
        tasks = with_baselines(covered, suite, notes) if aggregate.normalised else covered
        if not tasks:
            continue
        cells = {}
        for label in labels:
            values = {task: _values(finals[label][task]) for task in tasks}
            (found,) = summarise(values, [aggregate], suite, options.resamples)
            numbers = (found.mean.item(), found.low.item(), found.high.item(), found.seeds.item())
            scores = sum(number for task in tasks for _, number in finals[label][task])
            cells[label] = Cell(*numbers, scores)
        title = aggregate_title(aggregate, suite)
        row = Row(title, window, cells, aggregate=True, normalised=aggregate.normalised)
        rows.append(row)
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
