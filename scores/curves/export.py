"""Writing what a figure shows, and writing runs in the official format."""

import csv
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from curves.errors import ScoresError
from curves.panels import Panel
from curves.run import Run
from curves.score_file import write_score_file
from curves.score_table_text import number_text


def write_curves(panels: Sequence[Panel], path: Path) -> None:
    """Write every point of a figure as one CSV line: panel, method, x, mean, low, high, seeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["panel", "method", "x", "mean", "low", "high", "seeds"])
        for panel in panels:
            for curve in panel.curves:
                for index in np.flatnonzero(np.isfinite(curve.mean)):
                    columns = (curve.xs, curve.mean, curve.low, curve.high)
                    numbers = [number_text(column[index]) for column in columns]
                    writer.writerow([panel.name, curve.label, *numbers, curve.seeds[index]])


def export_runs(runs: Sequence[Run], target: Path) -> list[Path]:
    """Write runs in the official score-file format.

    Args:
      runs: Runs on the frames axis.
      target: A file `*.json.gz` for all runs, or a folder that gets one file
        `BENCHMARK-METHOD.json.gz` per benchmark and method; runs of an unknown benchmark go to
        `SUITE-METHOD.json.gz`.

    Returns:
      The files that were written.

    Raises:
      ScoresError: A file is there already, so that no scores are ever replaced, or the target
        has another suffix.
    """
    groups: dict[Path, list[Run]] = {}
    for run in runs:
        groups.setdefault(_target(run, target), []).append(run)
    for path in groups:
        if path.exists():
            raise ScoresError(f"{path} is there already; remove it or export to another place.")
    for path, members in groups.items():
        write_score_file(path, members)
    return list(groups)


def _target(run: Run, target: Path) -> Path:
    if target.name.endswith(".json.gz"):
        return target
    if target.suffix in (".gz", ".json") or target.is_file():
        raise ScoresError(f"--export takes a folder or a file named *.json.gz, got {target}")
    label = re.sub(r"[^\w.]+", "_", run.label).strip("_")
    return target / f"{run.benchmark or run.suite}-{label}.json.gz"
