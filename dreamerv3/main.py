"""Runs an experiment: `python dreamerv3/main.py --configs dmc_proprio size12m`."""

from __future__ import annotations

import logging
import os
import pathlib
import signal
import sys
from collections.abc import Sequence

if __name__ == "__main__":
    # During the imports, Ctrl+C ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # From a checkout, its packages are found without being installed.
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from dreamerv3.cli import command_line
from dreamerv3.cli.next_steps import announced
from dreamerv3.cli.run_folder import claimed
from embodied.core.config import Config, ConfigError
from embodied.envs.errors import EnvError
from embodied.run.folder_lock import FolderInUseError


def main(argv: Sequence[str] | None = None) -> None:
    """Run what a command line asks for.

    Args:
      argv: Command line without the program's name; None for that of this process.

    Raises:
      SystemExit: With code 2 and one sentence on stderr if that cannot be done.
    """
    logging.basicConfig(format="%(levelname)s: %(message)s")
    config = command_line.resolve(argv)
    # Only a command line that makes sense has to wait for JAX.
    from embodied.jax.platform import (
        PlatformError,
        choose_platform,
        describe_platform,
        join_hosts,
    )

    try:
        options = config.jax
        join_hosts(options.coordinator_address, config.replica, config.replicas)
        platform = choose_platform(options.platform, options.prealloc, options.mock_devices)
        print(describe_platform(platform, options.platform), flush=True)
        run(config)
    except (ConfigError, EnvError, FolderInUseError, PlatformError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from error


def run(config: Config) -> None:
    """Claim the logdir and run the script."""
    from dreamerv3.cli import scripts

    with claimed(config), announced(config):
        scripts.start(config)


def program() -> None:
    """Run `main` as the process that it is, for the console script.

    After a signal, everything that has to be saved or closed has been, and the process ends without
    taking the interpreter apart: native code that a signal has left in the middle of tracing a
    function sometimes crashes then.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        main()
        return
    except KeyboardInterrupt:  # Where no run takes care of it.
        print("Stopped.", flush=True)
        code = 128 + signal.SIGINT
    except SystemExit as error:
        if not isinstance(error.code, int) or error.code <= 128:
            raise
        code = error.code
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    program()
