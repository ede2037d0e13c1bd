"""The program that a shell has started: how it runs and ends, and what it is called."""

from __future__ import annotations

import io
import os
import select
import shlex
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TextIO


def run_program(main: Callable[[], int | None]) -> None:
    """Run `main` as the process that it is, and end with what it returns as exit code.

    If the reader of the output leaves, as in `... | head`, the process ends without a traceback,
    with the code of a program that SIGPIPE ends. After a signal, everything that has to
    be saved or closed has been, and the process ends without taking the interpreter apart: native
    code that a signal has left in the middle of tracing a function sometimes crashes then. The same
    where another thread still works, such as one that compiles what nobody will call any more.

    Args:
      main: The program; returns an exit code, or None for 0.

    Raises:
      SystemExit: With the exit code.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _print_anything()
    try:
        try:
            code: int | str | None = main()
        finally:
            sys.stdout.flush()  # Here instead of at the exit, where an error cannot be caught.
    except KeyboardInterrupt:  # Where no run takes care of it.
        print("Stopped.", flush=True)
        code = 128 + signal.SIGINT
    except BrokenPipeError:
        if not (_reader_left(sys.stdout) or _reader_left(sys.stderr)):
            raise
        os._exit(128 + signal.SIGPIPE)
    except SystemExit as error:
        code = error.code
    if isinstance(code, str):
        raise SystemExit(code)
    if (code and code > 128) or threading.active_count() > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)
    if code:
        raise SystemExit(code)


def program_text(command: str = "", alone: str = "") -> str:
    """Return what a user types to run a command the way this process was started.

    That is `python dreamerv3/main.py plot` from a checkout, and otherwise the installed
    `dreamerv3 plot`.

    Args:
      command: Name of the command; empty for training.
      alone: How the command is started by itself, such as `python -m package.module`; returned
        where this process was started so.
    """
    started = Path(sys.argv[0]).name
    if alone and started == f"{alone.rpartition('.')[2]}.py":
        return alone
    program = f"python {shlex.quote(sys.argv[0])}" if started == "main.py" else "dreamerv3"
    return f"{program} {command}".rstrip()


def _print_anything() -> None:
    """Replace what the encoding of the terminal lacks, here and in processes that are started."""
    encoding, _, _ = os.environ.get("PYTHONIOENCODING", "").partition(":")
    os.environ["PYTHONIOENCODING"] = f"{encoding}:replace"
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _reader_left(stream: TextIO) -> bool:
    """Whether a stream is a pipe that nobody reads any more."""
    poll = select.poll()
    try:
        poll.register(stream, 0)
    except (OSError, ValueError):
        return False
    return any(event & select.POLLERR for _, event in poll.poll(0))
