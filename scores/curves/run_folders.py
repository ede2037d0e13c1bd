"""Run folders, as the trainer writes them: whose they are, their scores, and damaged logs."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from scores.curves.notes import Notes
from scores.curves.runs import Run, Skipped, clean_scores, suite_of
from scores.curves.text import decode, json_values

MARKERS = ("scores.jsonl", "eval_scores.jsonl", "metrics.jsonl", "config.yaml", "episodes.jsonl")
TRAIN_KEYS = ("episode/score", "score", "train_return")
EVAL_KEYS = ("eval/episode/score", "eval_episode/score", "eval/score", "eval_return")

Record = dict[str, object]
Series = tuple[list[object], list[object]]  # Steps and scores as logged.


def is_run_folder(names: Sequence[str]) -> bool:
    """Tell from the file names of a folder whether a run was logged in it."""
    return any(marker in names for marker in MARKERS)


def read_run_folder(folder: Path, notes: Notes, keys: Sequence[str] = ()) -> list[Run]:
    """Read the training and the evaluation series of a run folder.

    Args:
      folder: Holds `scores.jsonl` and perhaps `eval_scores.jsonl`; where neither exists the
        scores in `metrics.jsonl` are used.
      notes: Receives remarks on what is missing or damaged.
      keys: Names of the scores in these files, instead of those that are known; what begins with
        `eval` is of evaluations.

    Returns:
      No, one or two runs.
    """
    identity = identify(folder, notes)
    if identity is None:
        return []
    runs = []
    logged = _logged_scores(folder, notes, keys)
    logged["eval"] = logged["eval"] if logged["eval"][0] else _evaluated(folder, identity, notes)
    for series, (xs, ys) in logged.items():
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


def _logged_scores(folder: Path, notes: Notes, keys: Sequence[str]) -> dict[str, Series]:
    """Find the training and the evaluation scores; a file of its own comes first for both."""
    train_keys: Sequence[str] = (
        [key for key in keys if not key.startswith("eval")] if keys else TRAIN_KEYS
    )
    eval_keys: Sequence[str] = (
        [key for key in keys if key.startswith("eval")] if keys else EVAL_KEYS
    )
    records = {
        name: read_jsonl(folder / name, notes) for name in ("scores.jsonl", "eval_scores.jsonl")
    }
    train = _collect(records["scores.jsonl"], train_keys)
    evaluation = _collect(records["eval_scores.jsonl"], (*eval_keys, *train_keys))
    if not evaluation[0]:
        evaluation = _collect(records["scores.jsonl"], eval_keys)
    if not any(records.values()) or (keys and not train[0] and not evaluation[0]):
        found = read_jsonl(folder / "metrics.jsonl", notes)
        train, evaluation = _collect(found, train_keys), _collect(found, eval_keys)
        if not keys and (train[0] or evaluation[0]):
            notes.add(f"{folder}: no scores.jsonl, used the scores in metrics.jsonl")
    return {"train": train, "eval": evaluation}


def _evaluated(folder: Path, identity: "Identity", notes: Notes) -> Series:
    """Scores of an evaluation by itself, `eval_only`, at the step of the agent that acted."""
    episodes = read_jsonl(folder / "episodes.jsonl", notes)
    whole = [x["score"] for x in episodes if "score" in x and not x.get("partial")]
    try:
        step = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["step"]
        frames = float(step) * max(identity.repeat, 1)
    except (OSError, ValueError, KeyError, TypeError):
        if episodes:
            notes.add(f"{folder}: summary.json is missing or damaged, the evaluation is left out")
        return [], []
    return [frames] * len(whole), whole


def _collect(records: Sequence[Record], keys: Sequence[str]) -> Series:
    """Take the first of the keys that each record holds."""
    steps: list[object] = []
    scores: list[object] = []
    for record in records:
        key = next((key for key in keys if key in record), None)
        if key is not None and "step" in record:
            steps.append(record["step"])
            scores.append(record[key])
    return steps, scores


def read_jsonl(path: Path, notes: Notes) -> list[Record]:
    """Read one JSON object per line and skip what cannot be read.

    Args:
      path: The file; a run that is killed while writing leaves its last line cut.
      notes: Receives a remark for a cut last line and one for other unreadable lines.

    Returns:
      The readable objects in file order; none where there is no file.
    """
    if not path.is_file():
        return []
    text = decode(path.read_bytes())
    if text.lstrip().startswith("{\n"):  # Objects over several lines.
        with contextlib.suppress(ValueError):
            return [value for value in json_values(text) if isinstance(value, dict)]
    lines = text.splitlines()
    records: list[Record] = []
    damaged = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if isinstance(record, dict):
            records.append(record)
        elif number == len(lines):
            notes.add(f"{path}: the last line is cut and was skipped")
        else:
            damaged += 1
    if damaged:
        notes.add(f"{path}: {damaged} unreadable lines were skipped")
    return records


@dataclass(frozen=True)
class Identity:
    """Task, method and seed of a run folder, and what its config says about the protocol."""

    task: str
    method: str
    seed: str
    repeat: int = 0
    benchmark: str = ""


def identify(folder: Path, notes: Notes) -> Identity | None:
    """Find out what was run in a folder, from its saved config or else from its name.

    Args:
      folder: Run folder with `config.yaml`, or named `*-task-method-seed`, or
        `task/method/seed`.
      notes: Receives a remark where neither tells.

    Returns:
      The identity, or None.
    """
    path = folder / "config.yaml"
    if path.is_file():
        config = _read_config(path, notes)
        if "task" in config:
            return _from_config(config)
        notes.add(f"{path}: names no task, so the folder name decides")
    found = from_name(folder)
    if found is None:
        notes.add(
            f"{folder}: no config.yaml with a task and no name like *-task-method-seed or "
            "task/method/seed; left out"
        )
    return found


def from_name(folder: Path) -> Identity | None:
    """Read task, method and seed from a folder name; task names hold an underscore."""
    parts = folder.absolute().name.split("-")
    if len(parts) >= 3 and parts[-1].isdecimal():
        if "_" in parts[-3]:
            return Identity(parts[-3], parts[-2], parts[-1])
        for index, part in enumerate(parts[:-3]):  # Methods may hold dashes.
            if "_" in part:
                return Identity(part, "-".join(parts[index + 1 : -1]), parts[-1])
    ancestors = folder.absolute().parts[-3:]
    if len(ancestors) == 3 and ancestors[2].isdecimal() and "_" in ancestors[0]:
        return Identity(ancestors[0], ancestors[1], ancestors[2])
    return None


def _read_config(path: Path, notes: Notes) -> Mapping[str, object]:
    try:
        config = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except (YAMLError, UnicodeDecodeError, OSError) as error:
        reason = str(error).splitlines()[0]
        notes.add(f"{path}: cannot be read ({reason})")
        return {}
    return config if isinstance(config, Mapping) else {}


def _from_config(config: Mapping[str, object]) -> Identity:
    task = str(config["task"])
    if task.endswith(".env.pkl"):  # Given from Python, and stored in the folder of the run.
        task = Path(task).name.removesuffix(".env.pkl")
    repeat = _lookup(config, f"env.{suite_of(task)}.repeat")
    return Identity(
        task=task,
        method=str(config.get("method", "unnamed")),
        seed=str(config.get("seed", 0)),
        repeat=int(repeat) if isinstance(repeat, (int, float)) else 1,
        benchmark=_benchmark(config, task),
    )


def _benchmark(config: Mapping[str, object], task: str) -> str:
    """The control suite's two protocols share task names; the saved inputs tell them apart."""
    if suite_of(task) != "dmc":
        return ""
    if _lookup(config, "env.dmc.image") is False:
        return "dmc_proprio"
    if _lookup(config, "env.dmc.proprio") is False:
        return "dmc_vision"
    return ""


def _lookup(config: Mapping[str, object], key: str) -> object:
    """Value of a dotted key in a nested or flat mapping, None where it is missing."""
    if key in config:
        return config[key]
    head, _, rest = key.partition(".")
    child = config.get(head)
    return _lookup(child, rest) if rest and isinstance(child, Mapping) else None
