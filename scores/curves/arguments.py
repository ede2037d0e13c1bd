"""What the commands of the scripts share: options, their names, and how mistakes are reported."""

import os
import shlex
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from pathlib import Path

from scores.curves.notes import Notes, ScoresError
from scores.curves.selection import Selection

PATHS_HELP = (
    "score files (*.json.gz), run folders, or folders that hold either at any depth; NAME=PATH "
    "gives all runs below a path the method name NAME"
)


def make_parser(name: str, description: str, examples: str) -> ArgumentParser:
    """Return a parser with the options for choosing runs.

    Args:
      name: Name of the script, such as `plot`.
      description: What it does.
      examples: Lines for the end of the help; `{program}` stands for what the user types.
    """
    program = program_text(name)
    parser = ArgumentParser(
        usage=f"{program} PATH [PATH ...] [options]".replace("%", "%%"),
        description=description,
        epilog=examples.replace("{program}", program).replace("%", "%%"),
        formatter_class=RawDescriptionHelpFormatter,
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
    choice.add_argument(
        "--keys",
        nargs="+",
        default=[],
        metavar="KEY",
        help="names of the scores in logs, if other than those of run folders; those that begin "
        "with 'eval' are evaluation scores",
    )
    choice.add_argument("--all-notes", action="store_true", help="print every note on the data")
    return parser


def program_text(name: str) -> str:
    """Return what starts a script where the user is.

    That is `python scores/plot.py` or `python dreamerv3/main.py plot` if one of these files was
    run, and otherwise the installed `dreamerv3 plot`.
    """
    started = Path(sys.argv[0]).name
    python = f"python {shlex.quote(sys.argv[0])}"
    return {f"{name}.py": python, "main.py": f"{python} {name}"}.get(started, f"dreamerv3 {name}")


def selection_from(arguments: Namespace) -> Selection:
    """Return what the shared options choose."""
    return Selection(
        paths=tuple(arguments.paths),
        tasks=tuple(arguments.tasks),
        methods=tuple(arguments.methods),
        series=arguments.series,
        renames=tuple(arguments.rename),
        keys=tuple(arguments.keys),
    )


def positive(kind: type[int] | type[float]) -> Callable[[str], float]:
    """Return an argument type that takes numbers above zero; `250e3` is an int as well."""

    def convert(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not 0 < value < float("inf") or (kind is int and value != int(value)):
            word = "whole number" if kind is int else "number"
            raise ArgumentTypeError(f"expected a {word} above 0, got {text!r}")
        return kind(value)

    return convert


def run_script(
    parser: ArgumentParser,
    work: Callable[[Namespace, Notes], None],
    argv: Sequence[str] | None,
) -> None:
    """Parse a command line, do the work and show the notes.

    Args:
      parser: From `make_parser`.
      work: Called with the parsed arguments and a place for notes.
      argv: Command line without the name of the script; None for that of this process.

    Raises:
      SystemExit: With code 2 and one sentence on standard error if the user made a mistake.
    """
    try:
        arguments = parser.parse_args(argv)
    finally:  # Asked for help, the parser exits.
        _flush_output()
    notes = Notes()
    message = ""
    try:
        work(arguments, notes)
    except BrokenPipeError:
        pass
    except ScoresError as error:
        message = str(error)
    except OSError as error:
        message = f"{error.filename}: {error.strerror}"
    _flush_output()
    notes.show(sys.stderr, 0 if arguments.all_notes else 20)
    if message:
        print(f"{parser.prog}: error: {message}", file=sys.stderr)
        raise SystemExit(2)


def _flush_output() -> None:
    """Write out what was printed, unless its reader, such as `head`, has seen enough."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
