"""Summaries over the tasks of a suite, with stratified bootstrap intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from curves.baselines import Suite
from curves.run import Floats
from curves.statistics import interquartile_mean, mean_over_seeds, percentile_bounds

CHUNK_VALUES = 4_000_000  # Bounds the memory of one block of bootstrap draws to 32 MB.


@dataclass(frozen=True)
class Aggregate:
    """A way to summarise a suite.

    Attributes:
      title: Text after the suite or expert name.
      statistic: `mean`, `median` or `iqm`.
      normalised: Whether scores are first scaled so that random is 0 and expert is 1.
      capped: Whether each task counts for at most 1.
    """

    title: str
    statistic: str
    normalised: bool = False
    capped: bool = False


AGGREGATES = {
    "mean": Aggregate("mean", "mean"),
    "median": Aggregate("median", "median"),
    "iqm": Aggregate("IQM", "iqm"),
    "norm_mean": Aggregate("mean", "mean", normalised=True),
    "norm_median": Aggregate("median", "median", normalised=True),
    "norm_iqm": Aggregate("IQM", "iqm", normalised=True),
    "capped_mean": Aggregate("capped mean", "mean", normalised=True, capped=True),
}


@dataclass(frozen=True)
class Summary:
    """One aggregate of one method.

    Attributes:
      mean: Float64 [X], the aggregate; NaN where some task has no score.
      low: Float64 [X], lower end of the 95% stratified bootstrap interval.
      high: Float64 [X], upper end.
      seeds: Int64 [X], the smallest number of seeds that any task averages.
    """

    mean: Floats
    low: Floats
    high: Floats
    seeds: NDArray[np.int64]


def aggregate_title(aggregate: Aggregate, suite: Suite) -> str:
    """Name an aggregate for people: `task median`, `gamer mean`, `human capped mean`."""
    lead = suite.expert if aggregate.normalised else "task"
    return f"{lead} {aggregate.title}"


def summarise(
    values: Mapping[str, Floats],
    aggregates: Sequence[Aggregate],
    suite: Suite,
    resamples: int = 1000,
    seed: int = 0,
) -> list[Summary]:
    """Summarise one method over the tasks of a suite.

    The bootstrap is stratified: each draw takes, for every task on its own, as many seeds with
    replacement as the task has. `mean` and `median` are over the tasks' means over seeds, `iqm`
    over all runs of all tasks. All aggregates share the draws.

    Args:
      values: Task -> float64 [S, X] (S seeds, X positions) with NaN for missing values.
      aggregates: What to compute.
      suite: Holds the random and expert score of every task if any aggregate is normalised.
      resamples: Number of bootstrap draws; 0 gives no interval.
      seed: Seed of the draws.

    Returns:
      One summary per aggregate.
    """
    tasks = sorted(values)
    raw = [values[task] for task in tasks]
    scaled = [_normalise(values[task], suite.scores.get(task)) for task in tasks]
    counts = np.stack([mean_over_seeds(value)[1] for value in raw]).min(0)
    size = sum(value.size for value in raw)
    rng = np.random.default_rng(seed)
    draws: list[list[Floats]] = [[] for _ in aggregates]
    left = resamples
    while left > 0:
        block = min(left, max(1, CHUNK_VALUES // size))
        picks = [rng.integers(len(value), size=(block, len(value))) for value in raw]
        for index, aggregate in enumerate(aggregates):
            source = scaled if aggregate.normalised else raw
            stacks = [value[pick] for value, pick in zip(source, picks, strict=True)]
            draws[index].append(_statistic(stacks, aggregate))
        left -= block
    # With one seed per task every draw is the same: there is nothing to say about the spread.
    known = resamples > 0 and max(len(value) for value in raw) > 1
    summaries = []
    for aggregate, drawn in zip(aggregates, draws, strict=True):
        mean = _statistic(scaled if aggregate.normalised else raw, aggregate)
        bounds = percentile_bounds(np.concatenate(drawn)) if known else (mean * np.nan,) * 2
        low, high = (np.where(np.isfinite(mean), bound, np.nan) for bound in bounds)
        summaries.append(Summary(mean, low, high, counts))
    return summaries


def _normalise(values: Floats, scores: tuple[float, float] | None) -> Floats:
    if scores is None:
        return np.full(values.shape, np.nan)
    random, expert = scores
    return (values - random) / (expert - random)


def _statistic(values: Sequence[Floats], aggregate: Aggregate) -> Floats:
    """Compute an aggregate from one array [..., S, X] per task; returns [..., X]."""
    means = np.stack([mean_over_seeds(value, axis=-2)[0] for value in values], axis=-2)
    if aggregate.statistic == "iqm":
        result = interquartile_mean(np.concatenate(values, axis=-2))
        complete = np.isfinite(means).all(-2)
        return np.where(complete, result, np.nan)
    if aggregate.capped:
        means = np.minimum(means, 1.0)
    return means.mean(-2) if aggregate.statistic == "mean" else np.median(means, axis=-2)
