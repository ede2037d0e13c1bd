"""The horizontal axis: in what unit positions are (frames, steps, updates, hours), and its bins."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from scores.curves.notes import Notes, ScoresError
from scores.curves.run_folders import read_jsonl
from scores.curves.runs import Floats, Run, last_pass

AXES = {
    "frames": "Environment frames",
    "steps": "Agent steps",
    "updates": "Gradient steps",
    "hours": "Hours",
}
UPDATES_KEY = "train/opt/updates"
TIME_KEYS = ("time", "wallclock", "timestamp")
SCOPE_FILE = re.compile(r"(\d{20})-([0-9a-f]{8})[0-9a-f]{8}\.\w+")

MISSING = {
    "steps": "the action repeat is unknown (score files do not hold it)",
    "updates": f"no metrics.jsonl with {UPDATES_KEY}",
    "hours": "no time in metrics.jsonl or scores.jsonl and no dated files under scope/",
}


def convert_axis(runs: Sequence[Run], axis: str, notes: Notes) -> list[Run]:
    """Express the positions of all scores in another unit.

    Args:
      runs: Runs on the frames axis.
      axis: Key of `AXES`. Frames and steps are exact; updates and hours are interpolated
        linearly between the logged lines. Hours are wall-clock time since the first dated
        record, pauses between sessions included.
      notes: Receives a remark for each run that lacks what the axis needs.

    Returns:
      The runs that could be converted.

    Raises:
      ScoresError: No run could be converted.
    """
    if axis == "frames":
        return list(runs)
    converted = []
    for run in runs:
        xs = _convert(run, axis)
        if xs is None:
            notes.add(f"{run.source}: not on the {axis} axis, {MISSING[axis]}")
        else:
            converted.append(replace(run, xs=xs))
    if not converted:
        raise ScoresError(f"No run can be drawn over {axis}: {MISSING[axis]}; use --x frames.")
    return converted


def _convert(run: Run, axis: str) -> Floats | None:
    if axis == "steps":
        return run.xs / run.repeat if run.repeat else None
    if run.folder is None:
        return None
    known = _updates(run.folder) if axis == "updates" else _hours(run.folder)
    if known is None:
        return None
    steps, values = known
    return np.maximum.accumulate(np.interp(run.xs, steps, values))


def _updates(folder: Path) -> tuple[Floats, Floats] | None:
    pairs = _logged(folder / "metrics.jsonl", (UPDATES_KEY,))
    return _latest([(0.0, 0.0), *pairs]) if pairs else None


def _hours(folder: Path) -> tuple[Floats, Floats] | None:
    pairs = _logged(folder / "metrics.jsonl", TIME_KEYS)
    pairs = pairs or _logged(folder / "scores.jsonl", TIME_KEYS)
    pairs = pairs or _scope_times(folder / "scope")
    if len(pairs) < 2:
        return None
    steps, seconds = _latest(pairs)
    return steps, (seconds - seconds[0]) / 3600


def _logged(path: Path, keys: Sequence[str]) -> list[tuple[float, float]]:
    """Pairs of step and the value of the first of the keys that a line holds."""
    pairs = []
    for record in read_jsonl(path, Notes()):
        value = next((record[key] for key in keys if key in record), None)
        step = record.get("step")
        if isinstance(step, (int, float)) and isinstance(value, (int, float)):
            pairs.append((float(step), float(value)))
    return pairs


def _scope_times(folder: Path) -> list[tuple[float, float]]:
    """Pairs of step and unix seconds from the names `{step}-{seconds}{random}.ext`."""
    names = sorted(path.name for path in folder.glob("*/*"))
    matches = [match for name in names if (match := SCOPE_FILE.fullmatch(name))]
    return sorted((float(match[1]), float(int(match[2], 16))) for match in matches)


def _latest(pairs: list[tuple[float, float]]) -> tuple[Floats, Floats]:
    """Arrays of both columns without what a resumed run logged again or twice."""
    table = np.array(pairs, np.float64)
    table = table[np.isfinite(table).all(1)]
    table = table[last_pass(table[:, 0])]
    first = np.append(True, np.diff(table[:, 0]) > 0)
    return table[first, 0], table[first, 1]


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
