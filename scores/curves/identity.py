"""Which task, method and seed a run folder belongs to."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from curves.notes import Notes
from curves.run import suite_of


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


def _from_config(config: Mapping[str, object]) -> Identity:
    task = str(config["task"])
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


def _read_config(path: Path, notes: Notes) -> Mapping[str, object]:
    try:
        config = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except (YAMLError, UnicodeDecodeError, OSError) as error:
        reason = str(error).splitlines()[0]
        notes.add(f"{path}: cannot be read ({reason})")
        return {}
    return config if isinstance(config, Mapping) else {}
