"""Runs an experiment: `python dreamerv3/main.py --configs dmc_proprio size12m`."""

from __future__ import annotations

import logging
import pathlib
import signal
import sys
from collections.abc import Sequence

if __name__ == "__main__":
    # During the imports, Ctrl+C ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # From a checkout, its packages are found without being installed.
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from dreamerv3.cli import commands
from embodied.core.config import ConfigError
from embodied.core.program import run_program


def main(argv: Sequence[str] | None = None) -> int | None:
    """Run the command that a command line names, which is to train if it names none.

    Args:
      argv: Command line without the program's name; None for that of this process.

    Returns:
      The exit code; None for 0.

    Raises:
      SystemExit: With code 2 and one sentence on stderr if that cannot be done.
    """
    try:
        name, words = commands.split(sys.argv[1:] if argv is None else argv)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    return commands.COMMANDS[name].load()(words)


def train(argv: Sequence[str]) -> None:
    """Run the script that the option `script` names, by default training.

    Args:
      argv: Presets and options.

    Raises:
      SystemExit: With code 2 and one sentence on stderr if that cannot be done; with code 1 if an
        environment fails.
    """
    from dreamerv3.cli import command_line

    logging.basicConfig(format="%(levelname)s: %(message)s")
    config = command_line.resolve(argv)
    # Only a command line that makes sense has to wait for JAX.
    from dreamerv3.cli.launch import REFUSALS, launch

    try:
        launch(config)
    except REFUSALS as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from error


def program() -> None:
    """Run `main` as the process that it is, for the console script."""
    run_program(main)


if __name__ == "__main__":
    program()
