"""Reading the scores that the trainer wrote into a run folder."""

from collections.abc import Sequence
from pathlib import Path

from curves.identity import identify
from curves.jsonl import Record, read_jsonl
from curves.notes import Notes
from curves.run import Run, Skipped, clean_scores

MARKERS = ("scores.jsonl", "eval_scores.jsonl", "metrics.jsonl", "config.yaml")
TRAIN_KEYS = ("episode/score", "score")
EVAL_KEYS = ("eval/episode/score", "eval_episode/score", "eval/score")


def is_run_folder(names: list[str]) -> bool:
    """Tell from the file names of a folder whether a run was logged in it."""
    return any(marker in names for marker in MARKERS)


def read_run_folder(folder: Path, notes: Notes) -> list[Run]:
    """Read the training and the evaluation series of a run folder.

    Args:
      folder: Holds `scores.jsonl` and perhaps `eval_scores.jsonl`; where neither exists the
        scores in `metrics.jsonl` are used.
      notes: Receives remarks on what is missing or damaged.

    Returns:
      No, one or two runs.
    """
    identity = identify(folder, notes)
    if identity is None:
        return []
    raw = _raw_series(folder, notes)
    runs = []
    for series, (xs, ys) in raw.items():
        skipped = Skipped()
        steps, scores = clean_scores(xs, ys, skipped)
        skipped.note(str(folder), notes)
        if len(steps):
            run = Run(
                task=identity.task,
                method=identity.method,
                seed=identity.seed,
                xs=steps,
                ys=scores,
                series=series,
                benchmark=identity.benchmark,
                repeat=identity.repeat,
                source=str(folder),
                folder=folder,
            )
            runs.append(run)
    if not runs:
        notes.add(f"{folder}: no episode has finished, the run is left out")
    return runs


Series = tuple[list[object], list[object]]  # Steps and scores as logged.


def _raw_series(folder: Path, notes: Notes) -> dict[str, Series]:
    """Find the training and the evaluation scores; a file of its own comes first for both."""
    records = {
        name: read_jsonl(folder / name, notes) if (folder / name).is_file() else []
        for name in ("scores.jsonl", "eval_scores.jsonl")
    }
    train = _collect(records["scores.jsonl"], TRAIN_KEYS)
    evaluation = _collect(records["eval_scores.jsonl"], (*EVAL_KEYS, *TRAIN_KEYS))
    if not evaluation[0]:
        evaluation = _collect(records["scores.jsonl"], EVAL_KEYS)
    metrics = folder / "metrics.jsonl"
    if not any(records.values()) and metrics.is_file():
        found = read_jsonl(metrics, notes)
        train, evaluation = _collect(found, TRAIN_KEYS), _collect(found, EVAL_KEYS)
        if train[0] or evaluation[0]:
            notes.add(f"{folder}: no scores.jsonl, used the scores in metrics.jsonl")
    return {"train": train, "eval": evaluation}


def _collect(records: list[Record], keys: Sequence[str]) -> Series:
    """Take the first of the keys that each record holds."""
    steps: list[object] = []
    scores: list[object] = []
    for record in records:
        key = next((key for key in keys if key in record), None)
        if key is not None and "step" in record:
            steps.append(record["step"])
            scores.append(record[key])
    return steps, scores
