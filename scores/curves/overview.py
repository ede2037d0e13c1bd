"""What a set of runs holds, as a text table."""

from collections.abc import Sequence

import numpy as np

from curves.run import Run, natural_key

SUMMARY_COLUMNS = ("benchmark", "method", "tasks", "seeds", "runs", "points", "from", "to")
RUN_COLUMNS = ("task", "method", "seed", "points", "from", "to", "repeat", "last", "source")


def summary_lines(runs: Sequence[Run]) -> list[str]:
    """Describe the runs with one line per benchmark and method.

    Columns: number of tasks, seeds per task, number of runs, scores per run, first and last step.
    """
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.benchmark or run.suite, run.label), []).append(run)
    rows = [SUMMARY_COLUMNS]
    for (benchmark, label), members in sorted(groups.items()):
        tasks = {run.task for run in members}
        seeds = [sum(run.task == task for run in members) for task in tasks]
        points = [len(run.xs) for run in members]
        first, last = min(run.xs[0] for run in members), max(run.end for run in members)
        counts = (str(len(tasks)), _span(seeds), str(len(members)), _span(points))
        rows.append((benchmark, label, *counts, f"{first:.10g}", f"{last:.10g}"))
    return _align(rows)


def run_lines(runs: Sequence[Run]) -> list[str]:
    """Describe the runs one by one; `last` is the mean of the last tenth of the scores."""
    rows = [RUN_COLUMNS]
    for run in sorted(runs, key=lambda run: natural_key(f"{run.task} {run.label} {run.seed}")):
        last = np.mean(run.ys[-max(1, len(run.ys) // 10) :])
        steps = (f"{run.xs[0]:.10g}", f"{run.end:.10g}", str(run.repeat or "-"), f"{last:.1f}")
        rows.append((run.task, run.label, run.seed, str(len(run.xs)), *steps, run.source))
    return _align(rows)


def _span(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low}-{high}"


def _align(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
