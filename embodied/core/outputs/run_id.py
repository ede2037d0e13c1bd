"""Remembers under which run a folder is logged elsewhere, so that a resumed run continues it."""

import json
import os
from collections.abc import Callable
from pathlib import Path

_FILENAME = "log_runs.json"


def run_id(logdir: str | os.PathLike[str], backend: str, make: Callable[[], str]) -> str:
    """Return the identifier of a run at a logging service, made at the first call.

    Args:
      logdir: Folder of the run; the identifiers are kept in its file `log_runs.json`.
      backend: Name of the service.
      make: Makes a new identifier.

    Raises:
      ValueError: If the file is damaged.
    """
    known = _read(Path(logdir) / _FILENAME)
    return known[backend] if backend in known else remember(logdir, backend, make())


def remember(logdir: str | os.PathLike[str], backend: str, identifier: str) -> str:
    """Keep the identifier of a run at a logging service, in place of an earlier one; return it."""
    path = Path(logdir) / _FILENAME
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{_FILENAME}.{os.getpid()}.{backend}")
    unfinished.write_text(json.dumps({**_read(path), backend: identifier}, indent=2) + "\n")
    unfinished.replace(path)
    return identifier


def _read(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    try:
        return dict(json.loads(path.read_text()))
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"Got a damaged file {path}, expected a JSON object of run identifiers; delete it to "
            "log as a new run."
        ) from error
