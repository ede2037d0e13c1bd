"""Remembers under which run a folder is logged elsewhere, so that a resumed run continues it."""

import os
from collections.abc import Callable
from pathlib import Path


def run_id(logdir: str | os.PathLike[str], service: str, make: Callable[[], str]) -> str:
    """Return the identifier of a run at a logging service, made at the first call.

    Every service has a file of its own, because outputs write from threads of their own.

    Args:
      logdir: Folder of the run; the identifier is kept in its file `<service>_run.txt`.
      service: Name of the service.
      make: Makes a new identifier.
    """
    path = _path(logdir, service)
    known = path.read_text().strip() if path.exists() else ""
    return known or remember(logdir, service, make())


def remember(logdir: str | os.PathLike[str], service: str, identifier: str) -> str:
    """Keep the identifier of a run at a logging service, in place of an earlier one; return it."""
    path = _path(logdir, service)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(f"{identifier}\n")
    unfinished.replace(path)
    return identifier


def _path(logdir: str | os.PathLike[str], service: str) -> Path:
    return Path(logdir) / f"{service}_run.txt"
