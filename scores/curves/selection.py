"""From paths and options to the runs that a script works on: found, named, chosen and ordered."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

from scores.curves.baselines import load_baselines
from scores.curves.notes import Notes, ScoresError
from scores.curves.run_folders import is_run_folder, read_run_folder
from scores.curves.runs import Run, natural_key, run_order
from scores.curves.score_files import read_score_file

RUN_INTERNALS = ("ckpt", "replay", "eval_replay", "scope", "eval")


@dataclass(frozen=True)
class Selection:
    """Which runs are shown, under which names and in which order.

    Attributes:
      paths: Score files, run folders, and folders that hold either at any depth. `NAME=PATH`
        gives all runs below a path the method name NAME.
      tasks: Shell patterns; none keeps all.
      methods: Shell patterns, in the order in which the methods are shown; none keeps all.
      series: `train`, `eval` or `both`.
      renames: Texts `OLD=NEW` that show a method under another name.
      keys: Names of the scores in logs of run folders, see `read_run_folder`.
    """

    paths: tuple[str, ...]
    tasks: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    series: str = "both"
    renames: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


def selected_runs(selection: Selection, notes: Notes) -> tuple[list[Run], list[str]]:
    """Load, filter and rename runs.

    Args:
      selection: What to take.
      notes: Receives remarks about the data.

    Returns:
      The runs in an order that does not depend on the paths, and their labels in the order in
      which they are shown.

    Raises:
      ScoresError: Nothing was found or nothing is left.
    """
    aliases = load_baselines().aliases
    found = load_runs(selection.paths, notes, selection.keys)
    runs = [replace(run, task=aliases.get(run.task, run.task)) for run in found]
    runs = keep_origins_apart(select_tasks(runs, selection.tasks), notes)
    runs = select_methods(runs, selection.methods, selection.series)
    labels = order_labels(runs, selection.methods)
    runs, labels = rename_methods(runs, labels, selection.renames)
    _note_duplicates(runs, notes)
    return sorted(runs, key=run_order), labels


def load_runs(paths: Sequence[str], notes: Notes, keys: Sequence[str] = ()) -> list[Run]:
    """Read every run below the paths.

    Args:
      paths: As in `Selection`.
      notes: Receives remarks about the data.
      keys: As in `Selection`.

    Returns:
      Runs in the order in which they were found.

    Raises:
      ScoresError: A path does not exist, or no run was found.
    """
    runs: list[Run] = []
    seen: set[Path] = set()
    # The most special path names a run: `FOLDER x=FOLDER/sub` shows that part as x.
    named = sorted(map(_split_name, paths), key=lambda x: (not x[0], -len(x[1].resolve().parts)))
    for name, path in named:
        for run in _runs_below(path, seen, notes, keys):
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


def _runs_below(path: Path, seen: set[Path], notes: Notes, keys: Sequence[str]) -> Iterator[Run]:
    if path.is_file():
        if path.suffix == ".jsonl":
            path = path.parent
        else:
            yield from _read_once(path, seen, notes, keys)
            return
    for root, folders, files in os.walk(path, followlinks=True):
        folder = Path(root)
        folders.sort(key=natural_key)
        if is_run_folder(files):
            folders[:] = [name for name in folders if name not in RUN_INTERNALS]
            yield from _read_once(folder, seen, notes, keys)
        # Other programs keep other things in plain JSON beside the logs of a run.
        suffixes = (".json.gz",) if is_run_folder(files) else (".json.gz", ".json")
        for name in sorted(files, key=natural_key):
            if name.endswith(suffixes):
                yield from _read_once(folder / name, seen, notes, keys)


def _read_once(path: Path, seen: set[Path], notes: Notes, keys: Sequence[str]) -> list[Run]:
    """Read a file or run folder unless another of the paths led to it already."""
    resolved = path.resolve()
    if resolved in seen:
        return []
    seen.add(resolved)
    return read_run_folder(path, notes, keys) if path.is_dir() else read_score_file(path, notes)


@dataclass(frozen=True)
class _Origin:
    """Where runs come from: run folders, or the score files of a benchmark in one folder."""

    own: bool
    benchmark: str
    folder: str


def _origin_of(run: Run) -> _Origin:
    """Return the origin of a run; all run folders together are one."""
    if run.folder is not None:
        return _Origin(True, "", "")
    return _Origin(False, run.benchmark, str(Path(run.source).absolute().parent))


def keep_origins_apart(runs: Sequence[Run], notes: Notes) -> list[Run]:
    """Rename methods that have scores of one task from several origins.

    Our `dreamerv3` is not the published `dreamerv3`, and the benchmarks `dmc_proprio` and
    `dmc_vision` share task names. Runs from run folders get the addition `(own)`; score files
    that clash get their benchmark or, where that does not tell them apart, their folder.

    Args:
      runs: Chosen runs.
      notes: Receives a remark for each method that is renamed.
    """
    origins: dict[tuple[str, str], set[_Origin]] = {}
    for run in runs:
        origins.setdefault((run.method, run.task), set()).add(_origin_of(run))
    clashing: dict[str, set[_Origin]] = {}
    for (method, _), found in origins.items():
        if len(found) > 1:
            clashing.setdefault(method, set()).update(found)
    names = {method: _names_of_origins(method, found) for method, found in clashing.items()}
    for method, shown_as in names.items():
        shown = ", ".join(sorted(shown_as.values(), key=natural_key))
        notes.add(f"{method}: runs of several origins share this name, shown as {shown}")
    return [
        replace(run, method=names.get(run.method, {}).get(_origin_of(run), run.method))
        for run in runs
    ]


def _names_of_origins(method: str, origins: set[_Origin]) -> Mapping[_Origin, str]:
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


def select_tasks(runs: Sequence[Run], patterns: Sequence[str]) -> list[Run]:
    """Keep the runs whose task matches one of the shell patterns; no pattern keeps all.

    Raises:
      ScoresError: A pattern matches nothing.
    """
    _check_patterns(patterns, {run.task for run in runs}, "task")
    return [run for run in runs if _matches(run.task, patterns)]


def select_methods(runs: Sequence[Run], patterns: Sequence[str], series: str) -> list[Run]:
    """Keep the runs of some methods and series.

    Args:
      runs: Loaded runs.
      patterns: Shell patterns of method names; none keeps all. The name `a` also stands for
        `a (own)` and other additions that keep origins apart.
      series: `train`, `eval` or `both`.

    Raises:
      ScoresError: A pattern matches nothing, or nothing is left.
    """
    _check_patterns(patterns, {run.method for run in runs}, "method")
    chosen = [
        run for run in runs if _matches(run.method, patterns) and series in ("both", run.series)
    ]
    if not chosen:
        raise ScoresError("No run is left: --tasks, --methods and --series together exclude all.")
    return chosen


def order_labels(runs: Sequence[Run], patterns: Sequence[str]) -> list[str]:
    """List the labels among the runs in the order in which figures and tables show them.

    Args:
      runs: Runs to show.
      patterns: Patterns of `--methods`; they give the order, and within one the name does.
    """
    methods = {run.label: run.method for run in runs}

    def position(label: str) -> tuple[object, ...]:
        hits = [index for index, text in enumerate(patterns) if _match(methods[label], text)]
        return (hits[0] if hits else len(patterns)), natural_key(label)

    return sorted(methods, key=position)


def rename_methods(
    runs: Sequence[Run], labels: Sequence[str], renames: Sequence[str]
) -> tuple[list[Run], list[str]]:
    """Rename methods for display.

    Args:
      runs: Chosen runs.
      labels: Their labels in the order in which they are shown; the order is kept.
      renames: Texts `OLD=NEW`; OLD may be a shell pattern, and methods that get the same name
        are averaged together.

    Raises:
      ScoresError: A text has another form or names a method that is not there.
    """
    pairs = []
    for text in renames:
        old, equals, new = text.partition("=")
        if not (old and equals and new):
            raise ScoresError(f"--rename takes OLD=NEW, got {text!r}.")
        _check_patterns([old], {run.method for run in runs}, "method")
        pairs.append((old, new))
    renamed = [
        replace(
            run, method=next((new for old, new in pairs if _match(run.method, old)), run.method)
        )
        for run in runs
    ]
    new_labels = {old.label: new.label for old, new in zip(runs, renamed, strict=True)}
    return renamed, list(dict.fromkeys(new_labels[label] for label in labels))


def _match(name: str, pattern: str) -> bool:
    return name == pattern or name.startswith(f"{pattern} (") or fnmatchcase(name, pattern)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(_match(name, pattern) for pattern in patterns)


def _check_patterns(patterns: Sequence[str], names: set[str], kind: str) -> None:
    for pattern in patterns:
        if not any(_match(name, pattern) for name in names):
            known = sorted(names, key=natural_key)
            close = get_close_matches(pattern, known, n=3) or known[:5]
            raise ScoresError(
                f"No {kind} matches {pattern!r}; there are {len(known)}, such as "
                f"{', '.join(close)}."
            )


def _note_duplicates(runs: Sequence[Run], notes: Notes) -> None:
    """Remark on runs that have label, task and seed in common; each counts as a seed."""
    sources: dict[tuple[str, str, str], list[str]] = {}
    for run in runs:
        sources.setdefault((run.label, run.task, run.seed), []).append(run.source)
    for (label, task, seed), found in sources.items():
        if len(found) > 1:
            listed = ", ".join(sorted(found, key=natural_key))
            notes.add(f"{label} on {task}: {len(found)} runs have seed {seed}: {listed}")


def note_early_ends(runs: Sequence[Run], notes: Notes, fraction: float = 0.9) -> None:
    """Remark on runs that are much shorter than the others of their method and task.

    Args:
      runs: Runs that will be averaged.
      notes: Receives one remark per method.
      fraction: Share of the longest run's last step below which a run counts as short.
    """
    ends: dict[tuple[str, str], float] = {}
    for run in runs:
        key = (run.label, run.task)
        ends[key] = max(ends.get(key, 0.0), run.end)
    short: dict[str, list[Run]] = {}
    for run in runs:
        if run.end < fraction * ends[run.label, run.task]:
            short.setdefault(run.label, []).append(run)
    for label, found in short.items():
        first = found[0]
        example = f"{first.task} seed {first.seed} at {first.end:.10g}"
        example += f" of {ends[label, first.task]:.10g}"
        listed = f"{example}" if len(found) == 1 else f"{len(found)} of them, such as {example}"
        notes.add(f"{label}: runs that end early are averaged up to their end: {listed}")
