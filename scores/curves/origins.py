"""Keeping apart what has the same name but must not be averaged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from curves.notes import Notes
from curves.run import Run, natural_key


@dataclass(frozen=True)
class Origin:
    """Where runs come from: run folders, or the score files of a benchmark in one folder."""

    own: bool
    benchmark: str
    folder: str


def origin_of(run: Run) -> Origin:
    """Return the origin of a run; all run folders together are one."""
    if run.folder is not None:
        return Origin(True, "", "")
    return Origin(False, run.benchmark, str(Path(run.source).absolute().parent))


def keep_origins_apart(runs: Sequence[Run], notes: Notes) -> list[Run]:
    """Rename methods that have scores of one task from several origins.

    Our `dreamerv3` is not the published `dreamerv3`, and the benchmarks `dmc_proprio` and
    `dmc_vision` share task names. Runs from run folders get the addition `(own)`; score files
    that clash get their benchmark or, where that does not tell them apart, their folder.

    Args:
      runs: Chosen runs.
      notes: Receives a remark for each method that is renamed.
    """
    origins: dict[tuple[str, str], set[Origin]] = {}
    for run in runs:
        origins.setdefault((run.method, run.task), set()).add(origin_of(run))
    clashing: dict[str, set[Origin]] = {}
    for (method, _), found in origins.items():
        if len(found) > 1:
            clashing.setdefault(method, set()).update(found)
    names = {method: _names(method, found) for method, found in clashing.items()}
    for method, shown_as in names.items():
        shown = ", ".join(sorted(shown_as.values(), key=natural_key))
        notes.add(f"{method}: runs of several origins share this name, shown as {shown}")
    return [
        replace(run, method=names.get(run.method, {}).get(origin_of(run), run.method))
        for run in runs
    ]


def _names(method: str, origins: set[Origin]) -> Mapping[Origin, str]:
    files = [origin for origin in origins if not origin.own]
    benchmarks = {origin.benchmark for origin in files}
    folders = {Path(origin.folder).name for origin in files}
    names = {}
    for origin in origins:
        if origin.own:
            names[origin] = f"{method} (own)"
        elif len(files) == 1:
            names[origin] = method
        elif len(benchmarks) == len(files) and "" not in benchmarks:
            names[origin] = f"{method} ({origin.benchmark})"
        elif len(folders) == len(files):
            names[origin] = f"{method} ({Path(origin.folder).name})"
        else:
            names[origin] = f"{method} ({origin.folder} {origin.benchmark})".replace(" )", ")")
    return names


def note_duplicates(runs: Sequence[Run], notes: Notes) -> None:
    """Remark on runs that have label, task and seed in common; each counts as a seed."""
    sources: dict[tuple[str, str, str], list[str]] = {}
    for run in runs:
        sources.setdefault((run.label, run.task, run.seed), []).append(run.source)
    for (label, task, seed), found in sources.items():
        if len(found) > 1:
            listed = ", ".join(sorted(found, key=natural_key))
            notes.add(f"{label} on {task}: {len(found)} runs have seed {seed}: {listed}")
