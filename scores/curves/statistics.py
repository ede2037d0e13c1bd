"""Means over seeds and the intervals around them, for runs that may end early."""

import numpy as np
from numpy.typing import NDArray

from curves.run import Floats

INTERVALS = {
    "std": "sample standard deviation over seeds",
    "sem": "standard error of the mean over seeds",
    "bootstrap": "95% bootstrap interval of the mean over seeds",
    "none": "no interval",
}
PERCENTILES = (2.5, 97.5)


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
