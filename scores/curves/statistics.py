"""Means over seeds and summaries over tasks, with their intervals; runs may end early."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scores.curves.baselines import Suite
from scores.curves.notes import Notes
from scores.curves.runs import Floats, natural_key

INTERVALS = {
    "std": "sample standard deviation over seeds",
    "sem": "standard error of the mean over seeds",
    "bootstrap": "95% bootstrap interval of the mean over seeds",
    "none": "no interval",
}
PERCENTILES = (2.5, 97.5)
CHUNK_VALUES = 4_000_000  # Bounds the memory of one block of bootstrap draws to 32 MB.


def mean_over_seeds(values: Floats, axis: int = 0) -> tuple[Floats, NDArray[np.int64]]:
    """Average over the seeds that have a value.

    Args:
      values: Float64 with NaN for missing values, such as [S, X] (S seeds, X positions).
      axis: The axis of the seeds.

    Returns:
      Mean without that axis, NaN where no seed has a value, and the number of seeds.
    """
    counts = np.isfinite(values).sum(axis)
    sums = np.nan_to_num(values, nan=0.0).sum(axis)
    mean = np.full(sums.shape, np.nan)
    np.divide(sums, counts, out=mean, where=counts > 0)
    return mean, counts


def interval_over_seeds(
    values: Floats, kind: str, resamples: int = 1000, seed: int = 0
) -> tuple[Floats, Floats]:
    """Compute the interval around the mean over seeds.

    Args:
      values: Float64 [S, X] with NaN for missing values.
      kind: Key of `INTERVALS`. `std` divides by S - 1.
      resamples: Number of bootstrap draws of S seeds with replacement.
      seed: Seed of the draws; equal inputs give equal intervals.

    Returns:
      Lower and upper bound, float64 [X]; NaN where fewer than two seeds have a value.
    """
    mean, counts = mean_over_seeds(values)
    if kind == "none" or len(values) < 2:
        missing = np.full(mean.shape, np.nan)
        return missing, missing
    if kind == "bootstrap":
        rng = np.random.default_rng(seed)
        draws = values[rng.integers(len(values), size=(resamples, len(values)))]
        low, high = percentile_bounds(mean_over_seeds(draws, axis=1)[0])
        enough = counts >= 2
        return np.where(enough, low, np.nan), np.where(enough, high, np.nan)
    squares = np.nan_to_num((values - mean) ** 2, nan=0.0).sum(0)
    spread = np.full(mean.shape, np.nan)
    np.divide(squares, counts - 1, out=spread, where=counts > 1)
    spread = np.sqrt(spread)
    if kind == "sem":
        spread = spread / np.sqrt(np.maximum(counts, 1))
    return mean - spread, mean + spread


def percentile_bounds(draws: Floats) -> tuple[Floats, Floats]:
    """Return the 2.5 and 97.5 percentiles over the first axis, ignoring NaN.

    Args:
      draws: Float64 [R, X], one row per bootstrap draw.

    Returns:
      Lower and upper bound, float64 [X]; NaN for columns without any value.
    """
    bounds = np.full((2, *draws.shape[1:]), np.nan)
    some = np.isfinite(draws).any(0)
    if some.any():
        bounds[:, some] = np.nanpercentile(draws[:, some], PERCENTILES, axis=0)
    return bounds[0], bounds[1]


def interquartile_mean(values: Floats) -> Floats:
    """Mean of the middle half of the values.

    Args:
      values: Float64 [..., N, X] with NaN for missing values; of the n values at a position
        the floor(n / 4) lowest and as many highest are left out.

    Returns:
      Float64 [..., X], NaN where there is no value. Agarwal et al. (2021), "Deep
      reinforcement learning at the edge of the statistical precipice".
    """
    ordered = np.sort(values, axis=-2)  # NaN sorts to the end.
    counts = np.isfinite(values).sum(-2, keepdims=True)
    cut = counts // 4
    rank = np.arange(values.shape[-2])[:, None]
    kept = (rank >= cut) & (rank < counts - cut)
    return mean_over_seeds(np.where(kept, ordered, np.nan), axis=-2)[0]


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
      tasks: The tasks that it covers.
      mean: Float64 [X], the aggregate; NaN where some task has no score.
      low: Float64 [X], lower end of the 95% stratified bootstrap interval.
      high: Float64 [X], upper end.
      seeds: Int64 [X], the smallest number of seeds that any task averages.
    """

    tasks: tuple[str, ...]
    mean: Floats
    low: Floats
    high: Floats
    seeds: NDArray[np.int64]


Values = Mapping[str, Mapping[str, Floats]]  # Label -> task -> float64 [S, X], NaN if missing.


def aggregate_title(aggregate: Aggregate, suite: Suite) -> str:
    """Name an aggregate for people: `task median`, `gamer mean`, `human capped mean`."""
    lead = suite.expert if aggregate.normalised else "task"
    return f"{lead} {aggregate.title}"


def summarise_suite(
    values: Values,
    keys: Sequence[str],
    name: str,
    suite: Suite,
    resamples: int,
    notes: Notes,
) -> dict[str, dict[str, Summary]]:
    """Summarise every method that has scores on all tasks that any of them has.

    Args:
      values: Scores of all methods on the tasks of one suite.
      keys: Keys of `AGGREGATES`, in the order in which they are shown.
      name: Name of the suite in task names.
      suite: What is known about it.
      resamples: Number of bootstrap draws.
      notes: Receives remarks on methods and tasks that are left out.

    Returns:
      Key -> label -> summary; without the keys for which no method or task is left.
    """
    found: dict[str, dict[str, Summary]] = {}
    for normalised in (False, True):
        chosen = [key for key in keys if AGGREGATES[key].normalised == normalised]
        if not chosen:
            continue
        if normalised and not suite.scores:
            notes.add(f"{name}: has no random and expert scores, no normalised aggregates")
            continue
        covered = {label: set(tasks) for label, tasks in values.items()}
        tasks, labels = comparable(covered, name, notes)
        if normalised:
            tasks = _with_known_scale(tasks, suite, notes)
        for label in labels if tasks else []:
            kept = {task: values[label][task] for task in tasks}
            wanted = [AGGREGATES[key] for key in chosen]
            for key, summary in zip(chosen, summarise(kept, wanted, suite, resamples), strict=True):
                found.setdefault(key, {})[label] = summary
    return {key: found[key] for key in keys if key in found}


def comparable(
    tasks_of: Mapping[str, set[str]], suite_name: str, notes: Notes
) -> tuple[list[str], list[str]]:
    """Choose the tasks that aggregates cover and the methods that have all of them.

    Averages over different task sets do not compare, so the tasks are those of the method that
    has the most, and methods that lack some of them are left out of the aggregates.

    Args:
      tasks_of: Label -> tasks with scores, in the order of the figure.
      suite_name: What the notes name.
      notes: Receives a remark for each method that is left out.

    Returns:
      Tasks in natural order and labels in the given order; no tasks where there are fewer
      than two, because then there is nothing to aggregate.
    """
    tasks = max(tasks_of.values(), key=len, default=set())
    if len(tasks) < 2:
        return [], []
    labels = []
    for label, found in tasks_of.items():
        if found >= tasks:
            labels.append(label)
        else:
            notes.add(
                f"{label}: has {len(found & tasks)} of the {len(tasks)} {suite_name} tasks, so it "
                "is not part of the aggregates"
            )
    return sorted(tasks, key=natural_key), labels


def _with_known_scale(tasks: Sequence[str], suite: Suite, notes: Notes) -> list[str]:
    """Keep the tasks that have a random and an expert score, with a remark on the others."""
    known = [task for task in tasks if task in suite.scores]
    if lacking := [task for task in tasks if task not in suite.scores]:
        notes.add(f"no random and expert score, left out of normalised means: {lacking}")
    return known


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
        summaries.append(Summary(tuple(tasks), mean, low, high, counts))
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
