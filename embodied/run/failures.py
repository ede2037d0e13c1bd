"""What a run says when it has to end because of what an environment or a stored file gave it."""

from __future__ import annotations

import contextlib
import pathlib
import sys
import traceback
from collections.abc import Iterator

from embodied.core.replay import SchemaError
from embodied.core.space import SpaceError
from embodied.core.stepping.checked_env import TRACEBACK, WorkerError

#: File in the folder of a run with the traceback of the last failure.
FILE = "error.txt"


class PartFailedError(RuntimeError):
    """A part of a parallel run has ended before its time; its own error was printed before."""


@contextlib.contextmanager
def explained(folder: str) -> Iterator[None]:
    """Say in one sentence what was refused; the traceback goes to `error.txt`.

    Refused are steps and observations of environments, and stored steps that do not fit. That a
    part has failed is said as well. All other errors are faults of the program, and pass.

    Args:
      folder: The folder of the run.

    Raises:
      SystemExit: With exit code 1, from the error.
    """
    try:
        yield
    except (SchemaError, SpaceError, WorkerError) as error:
        path = pathlib.Path(folder) / FILE
        where = f"The traceback is in {path}."
        try:
            path.write_text(traceback.format_exc(), encoding="utf-8")
        except OSError as problem:
            where = f"The traceback could not be written to {path} ({problem.strerror})."
        sentence = str(error).partition(TRACEBACK)[0].rstrip()
        print(f"error: {sentence}\n{where}", file=sys.stderr, flush=True)
        raise SystemExit(1) from error
    except PartFailedError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(1) from error
