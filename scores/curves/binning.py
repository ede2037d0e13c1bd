"""Bringing runs with different positions onto one grid."""

import numpy as np

from curves.run import Floats, Run


def make_edges(low: float, high: float, bins: int) -> Floats:
    """Return the bin edges, float64 [bins + 1]."""
    return np.linspace(low, high, bins + 1)


def bin_run(run: Run, edges: Floats) -> Floats:
    """Average the scores of a run within each bin.

    A bin covers the scores after its left edge up to and including its right edge, where the
    average is drawn; the first bin includes its left edge. An empty bin between two filled ones
    is interpolated linearly; before the first and after the last score there is nothing.

    Args:
      run: Scores at non-decreasing positions.
      edges: Float64 [X + 1], increasing.

    Returns:
      Float64 [X], NaN where the run has no score.
    """
    bins = len(edges) - 1
    tolerance = 1e-9 * (edges[-1] - edges[0])  # A score on an edge stays there after rounding.
    inside = (run.xs >= edges[0] - tolerance) & (run.xs <= edges[-1] + tolerance)
    index = np.searchsorted(edges + tolerance, run.xs[inside], side="left") - 1
    index = np.clip(index, 0, bins - 1)
    counts = np.bincount(index, minlength=bins)
    sums = np.bincount(index, weights=run.ys[inside], minlength=bins)
    values = np.full(bins, np.nan)
    (filled,) = np.nonzero(counts)
    if len(filled):
        span = np.arange(filled[0], filled[-1] + 1)
        values[span] = np.interp(span, filled, sums[filled] / counts[filled])
    return values


def bin_runs(runs: list[Run], edges: Floats) -> Floats:
    """Bin several runs, usually the seeds of one method on one task; float64 [runs, X]."""
    return np.stack([bin_run(run, edges) for run in runs])
