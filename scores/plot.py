"""Draw score curves: one panel per task, and summaries over the tasks of a suite.

Reads run folders and score files in any mix; writes figures and the points that are in them.
"""

import csv
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # Found without being installed.

import numpy as np

from scores.curves.arguments import (
    PATHS_HELP,
    make_parser,
    positive,
    run_script,
    selection_from,
)
from scores.curves.axis import AXES, convert_axis
from scores.curves.baselines import load_baselines
from scores.curves.notes import Notes, ScoresError
from scores.curves.panels import Panel, PanelOptions, make_panels
from scores.curves.selection import note_early_ends, selected_runs
from scores.curves.statistics import AGGREGATES, INTERVALS
from scores.curves.table_text import number_text

EXAMPLES = """examples:
  {program} ~/logdir ../official-scores/dmc_proprio-*.json.gz
  {program} ours=~/logdir ../official-scores --tasks 'dmc_walker_*' --out walker.pdf
  {program} ~/logdir --x hours --band none --out hours.svg hours.csv
"""
SUFFIXES = (".png", ".svg", ".pdf", ".csv")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the script; `argv` is the command line without its name, None takes the process's."""
    run_script(build_parser(), work, argv)


def build_parser() -> ArgumentParser:
    """Return the command-line parser."""
    parser = make_parser("plot", str(__doc__), EXAMPLES)
    parser.add_argument("paths", nargs="+", metavar="PATH", help=PATHS_HELP)
    parser.add_argument(
        "--out",
        nargs="+",
        type=_output,
        default=[Path("curves.png"), Path("curves.csv")],
        metavar="FILE",
        help="files to write; .png .svg .pdf or .csv (default: curves.png curves.csv)",
    )
    data = parser.add_argument_group("what is drawn")
    data.add_argument("--x", choices=AXES, default="frames", help="horizontal axis")
    data.add_argument("--bins", type=positive(int), default=50, help="points per curve (50)")
    data.add_argument(
        "--band", choices=INTERVALS, default="std", help="band around task curves (std)"
    )
    data.add_argument(
        "--panels", choices=("all", "tasks", "aggregates"), default="all", help="default: all"
    )
    data.add_argument(
        "--aggregates",
        nargs="+",
        choices=AGGREGATES,
        metavar="NAME",
        help="summaries over tasks with 95%% stratified bootstrap bands (default: by suite): "
        + " ".join(AGGREGATES),
    )
    data.add_argument(
        "--resamples", type=positive(int), default=1000, help="bootstrap draws (1000)"
    )
    _add_looks(parser)
    return parser


def _add_looks(parser: ArgumentParser) -> None:
    looks = parser.add_argument_group("how it looks")
    looks.add_argument("--xlim", nargs=2, type=float, metavar=("LOW", "HIGH"))
    looks.add_argument(
        "--ylim", nargs=2, type=float, metavar=("LOW", "HIGH"), help="for the task panels"
    )
    looks.add_argument("--columns", type=positive(int), default=0, help="panels per row")
    looks.add_argument(
        "--size",
        nargs=2,
        type=positive(float),
        metavar=("WIDTH", "HEIGHT"),
        help="inches per panel (default: by the number of panels)",
    )
    looks.add_argument("--title", default="", help="text above the figure")
    looks.add_argument("--dpi", type=positive(int), default=200, help="resolution of PNG (200)")
    looks.add_argument(
        "--no-counts", action="store_true", help="hide the strip with the seeds per point"
    )


def _output(text: str) -> Path:
    path = Path(text).expanduser()
    if path.suffix.lower() not in SUFFIXES:
        raise ArgumentTypeError(f"{text!r} must end with one of {' '.join(SUFFIXES)}")
    return path


def work(arguments: Namespace, notes: Notes) -> None:
    """Read, aggregate, draw and write as the arguments say."""
    xlim, ylim = _limits(arguments, "xlim"), _limits(arguments, "ylim")
    runs, labels = selected_runs(selection_from(arguments), notes)
    runs = convert_axis(runs, arguments.x, notes)
    note_early_ends(runs, notes)
    aggregates = () if arguments.panels == "tasks" else arguments.aggregates
    options = PanelOptions(
        bins=arguments.bins,
        xlim=xlim,
        band=arguments.band,
        aggregates=None if aggregates is None else tuple(aggregates),
        resamples=arguments.resamples,
        tasks=arguments.panels != "aggregates",
    )
    panels = make_panels(runs, labels, load_baselines(), options, notes)
    tables = [path for path in arguments.out if path.suffix.lower() == ".csv"]
    for path in tables:
        write_points(panels, path)
    pictures = [path for path in arguments.out if path not in tables]
    if pictures:
        try:
            from scores.curves import figure  # Slow to import, not needed for --help or CSV.
        except ImportError as error:
            raise ScoresError(
                f"Figures need matplotlib ({error}); install it with pip install matplotlib or "
                "write only a .csv file."
            ) from error
        looks = figure.FigureOptions(
            xlabel=AXES[arguments.x],
            xlim=xlim,
            ylim=ylim,
            columns=arguments.columns,
            size=tuple(arguments.size) if arguments.size else None,
            title=arguments.title,
            counts=not arguments.no_counts,
        )
        drawn = figure.draw_figure(panels, labels, looks)
        for path in pictures:
            figure.save_figure(drawn, path, arguments.dpi)
    for path in arguments.out:
        print(f"Wrote {path}")


def _limits(arguments: Namespace, name: str) -> tuple[float, float] | None:
    limits = getattr(arguments, name)
    if limits is None:
        return None
    low, high = limits
    if not low < high:
        raise ScoresError(f"--{name} takes LOW and HIGH with LOW < HIGH, got {limits}.")
    return low, high


def write_points(panels: Sequence[Panel], path: Path) -> None:
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


if __name__ == "__main__":
    main()
