"""What a figure shows, as plain arrays: one panel per task and one per aggregate."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scores.curves.axis import bin_runs, make_edges
from scores.curves.baselines import Baselines, Suite
from scores.curves.notes import Notes, ScoresError
from scores.curves.runs import Floats, Run, natural_key
from scores.curves.statistics import (
    AGGREGATES,
    Values,
    aggregate_title,
    interval_over_seeds,
    mean_over_seeds,
    summarise_suite,
)


@dataclass(frozen=True)
class Curve:
    """One line of a panel; all arrays have one entry per bin.

    Attributes:
      label: Name in the legend.
      xs: Float64 [X], right edges of the bins.
      mean: Float64 [X], NaN where there is no score.
      low: Float64 [X], lower end of the band, NaN where there is none.
      high: Float64 [X], upper end of the band.
      seeds: Int64 [X], number of seeds that the point averages.
    """

    label: str
    xs: Floats
    mean: Floats
    low: Floats
    high: Floats
    seeds: NDArray[np.int64]


@dataclass(frozen=True)
class Panel:
    """One small plot.

    Attributes:
      name: Task name, or `<suite>_<aggregate>`.
      title: Text above the panel.
      curves: Lines in the order of the legend.
      aggregate: Whether the panel summarises several tasks.
      marker_line: Height of a thin reference line (the expert's score of 1), or None.
    """

    name: str
    title: str
    curves: tuple[Curve, ...]
    aggregate: bool = False
    marker_line: float | None = None


@dataclass(frozen=True)
class PanelOptions:
    """How the panels are made.

    Attributes:
      bins: Number of bins on the horizontal axis.
      xlim: Range of the horizontal axis; None ends it at the last score of the suite.
      band: Key of `statistics.INTERVALS` for the task panels.
      aggregates: Keys of `AGGREGATES`; None takes those of the suite.
      resamples: Number of bootstrap draws.
      tasks: Whether task panels are wanted.
    """

    bins: int = 50
    xlim: tuple[float, float] | None = None
    band: str = "std"
    aggregates: tuple[str, ...] | None = None
    resamples: int = 1000
    tasks: bool = True


def make_panels(
    runs: Sequence[Run],
    labels: Sequence[str],
    baselines: Baselines,
    options: PanelOptions,
    notes: Notes,
) -> list[Panel]:
    """Bin the runs and average them, suite by suite.

    Args:
      runs: Runs on the chosen axis.
      labels: All labels in the order of the legend.
      baselines: Titles, default aggregates, random and expert scores.
      options: Grid, bands and choice of panels.
      notes: Receives remarks on methods and tasks that cannot be aggregated.

    Raises:
      ScoresError: The options leave no panel.
    """
    suites = sorted({run.suite for run in runs}, key=natural_key)
    panels: list[Panel] = []
    aggregates: list[Panel] = []
    for name in suites:
        suite = baselines.suite(name)
        edges = _edges([run for run in runs if run.suite == name], options)
        values = _bin_suite([run for run in runs if run.suite == name], labels, edges)
        prefix = f"{suite.title} " if len(suites) > 1 else ""
        if options.tasks:
            panels += _task_panels(values, edges, prefix, options)
        aggregates += _aggregate_panels(name, values, edges, prefix, suite, options, notes)
    if not panels and not aggregates:
        raise ScoresError("No panel is left: no suite has two tasks to aggregate.")
    return panels + aggregates


def task_title(task: str) -> str:
    """Name a task for people: `dmc_walker_walk` -> `Walker Walk`; import paths stay."""
    if ":" in task:
        return task
    words = task.split("_")
    return " ".join(capitalised(word) for word in (words[1:] or words))


def capitalised(text: str) -> str:
    """Return the text with its first letter in upper case and the others as they are."""
    return text[:1].upper() + text[1:]


def _edges(runs: Sequence[Run], options: PanelOptions) -> Floats:
    low, high = options.xlim or (0.0, max(run.end for run in runs))
    return make_edges(low, high if high > low else low + 1.0, options.bins)


def _bin_suite(runs: Sequence[Run], labels: Sequence[str], edges: Floats) -> Values:
    grouped: dict[str, dict[str, list[Run]]] = {label: {} for label in labels}
    for run in runs:
        grouped[run.label].setdefault(run.task, []).append(run)
    values: dict[str, dict[str, Floats]] = {}
    for label, tasks in grouped.items():
        binned = {task: bin_runs(found, edges) for task, found in tasks.items()}
        kept = {task: value for task, value in binned.items() if np.isfinite(value).any()}
        if kept:
            values[label] = kept
    return values


def _task_panels(values: Values, edges: Floats, prefix: str, options: PanelOptions) -> list[Panel]:
    panels = []
    tasks = {task for binned in values.values() for task in binned}
    for task in sorted(tasks, key=natural_key):
        curves = []
        for label, binned in values.items():
            if task in binned:
                mean, seeds = mean_over_seeds(binned[task])
                bounds = interval_over_seeds(binned[task], options.band, options.resamples)
                curves.append(Curve(label, edges[1:], mean, *bounds, seeds))
        panels.append(Panel(task, prefix + task_title(task), tuple(curves)))
    return panels


def _aggregate_panels(
    name: str,
    values: Values,
    edges: Floats,
    prefix: str,
    suite: Suite,
    options: PanelOptions,
    notes: Notes,
) -> list[Panel]:
    keys = suite.aggregates if options.aggregates is None else options.aggregates
    panels = []
    for key, found in summarise_suite(values, keys, name, suite, options.resamples, notes).items():
        curves = tuple(
            Curve(label, edges[1:], summary.mean, summary.low, summary.high, summary.seeds)
            for label, summary in found.items()
        )
        title = capitalised(prefix + aggregate_title(AGGREGATES[key], suite))
        line = 1.0 if AGGREGATES[key].normalised else None
        panels.append(Panel(f"{name}_{key}", title, curves, aggregate=True, marker_line=line))
    return panels
