"""Show what score files and run folders hold, and export runs in the official format."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # Found without being installed.

import numpy as np

from scores.curves.arguments import PATHS_HELP, make_parser, run_script, selection_from
from scores.curves.notes import Notes
from scores.curves.runs import Run, natural_key
from scores.curves.score_files import export_runs
from scores.curves.selection import selected_runs

EXAMPLES = """examples:
  {program} ../official-scores
  {program} ~/logdir --runs
  {program} ours=~/logdir --export scores/
"""
SUMMARY_COLUMNS = ("benchmark", "method", "tasks", "seeds", "runs", "points", "from", "to")
RUN_COLUMNS = ("task", "method", "seed", "points", "from", "to", "repeat", "last", "source")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the script; `argv` is the command line without its name, None takes the process's."""
    run_script(build_parser(), work, argv)


def build_parser() -> ArgumentParser:
    """Return the command-line parser."""
    parser = make_parser("view", str(__doc__), EXAMPLES)
    parser.add_argument(
        "paths",
        nargs="*",
        default=[str(Path(__file__).parent)],
        metavar="PATH",
        help=f"{PATHS_HELP} (default: the folder of this script)",
    )
    parser.add_argument("--runs", action="store_true", help="one line per run")
    parser.add_argument(
        "--export",
        type=Path,
        metavar="TARGET",
        help="write the chosen runs: a file *.json.gz, or a folder that gets one "
        "BENCHMARK-METHOD.json.gz per benchmark and method; nothing is overwritten",
    )
    return parser


def work(arguments: Namespace, notes: Notes) -> None:
    """Read the runs, describe them, and export them if asked to."""
    runs, _ = selected_runs(selection_from(arguments), notes)
    for line in run_lines(runs) if arguments.runs else summary_lines(runs):
        print(line)
    if arguments.export is not None:
        for path in export_runs(runs, arguments.export.expanduser()):
            print(f"Wrote {path}")


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


if __name__ == "__main__":
    main()
