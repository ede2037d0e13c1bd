"""Draw score curves: one panel per task, and summaries over the tasks of a suite.

Reads run folders and score files in any mix; writes figures and the points that are in them.
"""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from curves.aggregates import AGGREGATES
from curves.arguments import PATHS_HELP, make_parser, positive, run_script
from curves.axis import AXES, convert_axis
from curves.baselines import load_baselines
from curves.errors import ScoresError
from curves.export import write_curves
from curves.notes import Notes
from curves.panels import Panel, PanelOptions, make_panels
from curves.selected import selected_runs
from curves.selection import note_early_ends
from curves.statistics import INTERVALS

EXAMPLES = """examples:
  python scores/plot.py ~/logdir ../official-scores/dmc_proprio-*.json.gz
  python scores/plot.py ours=~/logdir ../official-scores --tasks 'dmc_walker_*' --out walker.pdf
  python scores/plot.py ~/logdir --x hours --band none --out hours.svg hours.csv
"""
SUFFIXES = (".png", ".svg", ".pdf", ".csv")


def _output(text: str) -> Path:
    path = Path(text).expanduser()
    if path.suffix.lower() not in SUFFIXES:
        raise ArgumentTypeError(f"{text!r} must end with one of {' '.join(SUFFIXES)}")
    return path


def build_parser() -> ArgumentParser:
    """Return the command-line parser."""
    parser = make_parser(str(__doc__), EXAMPLES)
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
    return parser


def work(arguments: Namespace, notes: Notes) -> None:
    """Read, aggregate, draw and write as the arguments say."""
    for name in ("xlim", "ylim"):
        limits = getattr(arguments, name)
        if limits and not limits[0] < limits[1]:
            raise ScoresError(f"--{name} takes LOW and HIGH with LOW < HIGH, got {limits}.")
    runs, labels = selected_runs(arguments.paths, arguments, notes)
    runs = convert_axis(runs, arguments.x, notes)
    note_early_ends(runs, notes)
    options = PanelOptions(
        bins=arguments.bins,
        xlim=tuple(arguments.xlim) if arguments.xlim else None,
        band=arguments.band,
        aggregates=() if arguments.panels == "tasks" else _tuple(arguments.aggregates),
        resamples=arguments.resamples,
        tasks=arguments.panels != "aggregates",
    )
    panels = make_panels(runs, labels, load_baselines(), options, notes)
    tables = [path for path in arguments.out if path.suffix.lower() == ".csv"]
    for path in tables:
        write_curves(panels, path)
    pictures = [path for path in arguments.out if path not in tables]
    if pictures:
        _draw(panels, labels, pictures, arguments)
    for path in arguments.out:
        print(f"Wrote {path}")


def _tuple(values: list[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)


def _draw(
    panels: list[Panel], labels: list[str], pictures: list[Path], arguments: Namespace
) -> None:
    try:
        from curves import drawing  # Slow to import and not needed for --help or CSV.
    except ImportError as error:
        raise ScoresError(
            f"Figures need matplotlib ({error}); install it with pip install '.[plot]' or write "
            "only a .csv file."
        ) from error
    options = drawing.FigureOptions(
        xlabel=AXES[arguments.x],
        xlim=tuple(arguments.xlim) if arguments.xlim else None,
        ylim=tuple(arguments.ylim) if arguments.ylim else None,
        columns=arguments.columns,
        size=tuple(arguments.size) if arguments.size else None,
        title=arguments.title,
        counts=not arguments.no_counts,
    )
    figure = drawing.draw_figure(panels, labels, options)
    for path in pictures:
        drawing.save_figure(figure, path, arguments.dpi)


if __name__ == "__main__":
    run_script(build_parser(), work)
