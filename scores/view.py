"""Show what score files and run folders hold, and export runs in the official format."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from curves.arguments import PATHS_HELP, make_parser, run_script
from curves.export import export_runs
from curves.notes import Notes
from curves.overview import run_lines, summary_lines
from curves.selected import selected_runs

EXAMPLES = """examples:
  python scores/view.py ../official-scores
  python scores/view.py ~/logdir --runs
  python scores/view.py ours=~/logdir --export scores/
"""


def build_parser() -> ArgumentParser:
    """Return the command-line parser."""
    parser = make_parser(str(__doc__), EXAMPLES)
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
    runs, _ = selected_runs(arguments.paths, arguments, notes)
    for line in run_lines(runs) if arguments.runs else summary_lines(runs):
        print(line)
    if arguments.export is not None:
        for path in export_runs(runs, arguments.export.expanduser()):
            print(f"Wrote {path}")


if __name__ == "__main__":
    run_script(build_parser(), work)
