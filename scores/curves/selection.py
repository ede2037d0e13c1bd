"""Choosing, renaming and ordering runs before they are aggregated."""

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase

from curves.errors import ScoresError
from curves.notes import Notes
from curves.run import Run, natural_key


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
