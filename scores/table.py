"""Print final scores per task and method, with intervals and summaries over the tasks.

The score of a run is its mean score over a window of frames; the window is printed.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # Found without being installed.

from scores.curves.arguments import PATHS_HELP, make_parser, positive, run_script, selection_from
from scores.curves.baselines import load_baselines
from scores.curves.notes import Notes
from scores.curves.score_table import TableOptions, make_table
from scores.curves.selection import selected_runs
from scores.curves.statistics import AGGREGATES, INTERVALS
from scores.curves.table_text import (
    FORMATS,
    format_csv,
    format_latex,
    format_markdown,
    window_text,
)

EXAMPLES = """examples:
  {program} ../official-scores/dmc_proprio-*.json.gz --at 490e3 --window 10e3
  {program} ~/logdir --at 250e3 --format csv --out final.csv
"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the script; `argv` is the command line without its name, None takes the process's."""
    run_script(build_parser(), work, argv)


def build_parser() -> ArgumentParser:
    """Return the command-line parser."""
    parser = make_parser("table", str(__doc__), EXAMPLES)
    parser.add_argument("paths", nargs="+", metavar="PATH", help=PATHS_HELP)
    data = parser.add_argument_group("what is shown")
    data.add_argument(
        "--at",
        type=positive(float),
        metavar="FRAMES",
        help="end of the window (default: the last step that at least half of the methods reach)",
    )
    data.add_argument(
        "--window",
        type=positive(float),
        metavar="FRAMES",
        help="scores after AT - WINDOW up to and including AT count (default: 2%% of AT, doubled "
        "up to 16%% until each run that gets that far has a score in it)",
    )
    data.add_argument(
        "--interval", choices=INTERVALS, default="std", help="interval of the task rows (std)"
    )
    data.add_argument(
        "--aggregates",
        nargs="+",
        choices=AGGREGATES,
        metavar="NAME",
        help="summary rows with 95%% stratified bootstrap intervals (default: by suite): "
        + " ".join(AGGREGATES),
    )
    data.add_argument(
        "--resamples", type=positive(int), default=1000, help="bootstrap draws (1000)"
    )
    data.add_argument(
        "--reference",
        default="auto",
        metavar="NAME",
        help="published column: a name in baselines.yaml, none, or auto, which shows dmc_proprio "
        "beside runs of that benchmark (auto)",
    )
    looks = parser.add_argument_group("how it is written")
    looks.add_argument("--format", choices=FORMATS, default="markdown", help="default: markdown")
    looks.add_argument(
        "--digits",
        type=int,
        choices=range(9),
        default=1,
        metavar="N",
        help="decimals, not for csv (1)",
    )
    looks.add_argument("--out", type=Path, metavar="FILE", help="default: standard output")
    return parser


def work(arguments: Namespace, notes: Notes) -> None:
    """Read, average and print as the arguments say."""
    runs, labels = selected_runs(selection_from(arguments), notes)
    options = TableOptions(
        at=arguments.at,
        window=arguments.window,
        interval=arguments.interval,
        aggregates=None if arguments.aggregates is None else tuple(arguments.aggregates),
        resamples=arguments.resamples,
        reference=arguments.reference,
    )
    table = make_table(runs, labels, load_baselines(), options, notes)
    if arguments.format == "csv":
        text = format_csv(table)
    elif arguments.format == "latex":
        text = format_latex(table, arguments.digits)
    else:
        text = format_markdown(table, arguments.digits)
    if arguments.format != "markdown" or arguments.out is not None:
        notes.add(f"window: {window_text(table)}")
    if arguments.out is None:
        print(text, end="")
    else:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(text, encoding="utf-8")
        print(f"Wrote {arguments.out}")


if __name__ == "__main__":
    main()
