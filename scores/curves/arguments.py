"""Command-line options that the scripts share, and how mistakes are reported."""

import argparse
import os
import sys
from collections.abc import Callable

from curves.errors import ScoresError
from curves.notes import Notes

PATHS_HELP = (
    "score files (*.json.gz), run folders, or folders that hold either at any depth; NAME=PATH "
    "gives all runs below a path the method name NAME"
)


def make_parser(description: str, epilog: str) -> argparse.ArgumentParser:
    """Return a parser with the options for choosing runs."""
    parser = argparse.ArgumentParser(
        usage="%(prog)s PATH [PATH ...] [options]",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    choice = parser.add_argument_group("which runs")
    choice.add_argument(
        "--tasks", nargs="+", default=[], metavar="PATTERN", help="such as 'dmc_walker_*'"
    )
    choice.add_argument(
        "--methods",
        nargs="+",
        default=[],
        metavar="PATTERN",
        help="names or patterns; their order is the order of columns, legend and colours",
    )
    choice.add_argument(
        "--series",
        choices=("train", "eval", "both"),
        default="both",
        help="training scores, evaluation scores, or both as separate entries (default: both)",
    )
    choice.add_argument(
        "--rename",
        nargs="+",
        default=[],
        metavar="OLD=NEW",
        help="show a method under another name",
    )
    choice.add_argument("--all-notes", action="store_true", help="print every note on the data")
    return parser


def positive(kind: type[int] | type[float]) -> Callable[[str], float]:
    """Return an argument type that takes numbers above zero; `250e3` is an int as well."""

    def convert(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not 0 < value < float("inf") or (kind is int and value != int(value)):
            word = "whole number" if kind is int else "number"
            raise argparse.ArgumentTypeError(f"expected a {word} above 0, got {text!r}")
        return kind(value)

    return convert


def run_script(
    parser: argparse.ArgumentParser, work: Callable[[argparse.Namespace, Notes], None]
) -> None:
    """Parse the command line, do the work, show the notes and exit.

    A user's mistake becomes one sentence and exit code 2.

    Args:
      parser: From `make_parser`.
      work: Called with the parsed arguments and a place for notes.
    """
    arguments = parser.parse_args()
    notes = Notes()
    message = ""
    try:
        work(arguments, notes)
        sys.stdout.flush()
    except BrokenPipeError:  # The reader of the output, such as `head`, has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except ScoresError as error:
        message = str(error)
    except OSError as error:
        message = f"{error.filename}: {error.strerror}"
    notes.show(sys.stderr, 0 if arguments.all_notes else 20)
    if message:
        print(f"{parser.prog}: error: {message}", file=sys.stderr)
        sys.exit(2)
