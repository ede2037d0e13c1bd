"""Finding the runs below any mix of paths."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from curves.errors import ScoresError
from curves.notes import Notes
from curves.run import Run, natural_key
from curves.run_folder import is_run_folder, read_run_folder
from curves.score_file import read_score_file

RUN_INTERNALS = ("ckpt", "replay", "eval_replay", "scope", "eval")


def load_runs(paths: Sequence[str], notes: Notes) -> list[Run]:
    """Read every run below the paths.

    Args:
      paths: Score files, run folders, and folders that hold either at any depth. `NAME=PATH`
        gives all runs below a path the method name NAME.
      notes: Receives remarks about the data.

    Returns:
      Runs in the order in which they were found.

    Raises:
      ScoresError: A path does not exist, or no run was found.
    """
    runs: list[Run] = []
    seen: set[Path] = set()
    for text in paths:
        name, path = _split_name(text)
        for run in _runs_below(path, seen, notes):
            runs.append(replace(run, method=name) if name else run)
    if not runs:
        raise ScoresError(f"No finished episodes and no score files below {', '.join(paths)}.")
    return runs


def _split_name(text: str) -> tuple[str, Path]:
    name, equals, rest = text.partition("=")
    if equals and name and not Path(text).expanduser().exists():
        text = rest
    else:
        name = ""
    path = Path(text).expanduser()
    if not path.exists():
        raise ScoresError(f"No such file or folder: {path}")
    return name, path


def _runs_below(path: Path, seen: set[Path], notes: Notes) -> Iterator[Run]:
    if path.is_file():
        if path.suffix == ".jsonl":
            path = path.parent
        else:
            yield from _read_once(path, seen, notes)
            return
    for root, folders, files in os.walk(path, followlinks=True):
        folder = Path(root)
        folders.sort(key=natural_key)
        if is_run_folder(files):
            folders[:] = [name for name in folders if name not in RUN_INTERNALS]
            yield from _read_once(folder, seen, notes)
        for name in sorted(files, key=natural_key):
            if name.endswith(".json.gz"):
                yield from _read_once(folder / name, seen, notes)


def _read_once(path: Path, seen: set[Path], notes: Notes) -> list[Run]:
    """Read a file or run folder unless another of the paths led to it already."""
    resolved = path.resolve()
    if resolved in seen:
        return []
    seen.add(resolved)
    return read_run_folder(path, notes) if path.is_dir() else read_score_file(path, notes)
