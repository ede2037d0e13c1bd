"""The folder of a run: taken for a new start, or found again with the options that are in it.

What is needed to repeat a run is there: its options in `config.yaml`, those of earlier starts
beside it, and the versions of every start in `starts.jsonl`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import pathlib
import platform
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dreamerv3.cli import agents, factories
from embodied.core.checkpoint import Checkpoint
from embodied.core.config import Config, ConfigError, Value, format_value
from embodied.core.snapshot import MANIFEST, Snapshot, package_versions
from embodied.envs import import_path, registry
from embodied.envs.errors import EnvError
from embodied.run.folder_lock import FolderLock

CONFIG = "config.yaml"
STARTS = "starts.jsonl"
SHOWN_OPTIONS = 30
SHOWN_PARAMS = 5

#: Options that may change when a run is continued. Options of suites that the task is not from may,
#: too.
CHANGEABLE = re.compile(
    r"logdir|method|script|replicas?|clock_addr|clock_port|ipv6|report_length|consec_report"
    r"|(logger|eval|jax)\..*|run\.(?!train_ratio$).*|replay\.(size|chunksize|prefetch)"
    r"|agent_config|agent\.report(_gradnorms)?"
)

#: Options that belong to a run itself and not to the agent that it has made.
_OWN = (
    "logdir", "script", "replica", "replicas", "jax.coordinator_address",
    "run.from_checkpoint", "run.from_checkpoint_regex",
)  # fmt: skip

Changes = dict[str, tuple[Value, Value]]
Shapes = Mapping[str, tuple[int, ...]]


@contextlib.contextmanager
def claimed(config: Config) -> Iterator[None]:
    """Hold the logdir as long as the context lasts, and store the options there.

    The options of earlier starts that differ are kept beside them. A start that is refused later,
    by a ConfigError or EnvError before it has saved anything, leaves the folder as it was.

    Raises:
      ConfigError: If the folder holds a run that this one cannot continue; nothing is changed then.
      FolderInUseError: If another process works in it.
    """
    if config.replica:  # The first one holds the folder for all.
        yield
        return
    folder = pathlib.Path(config.logdir)
    check_continues(config)
    with contextlib.ExitStack() as cleanup:
        try:
            cleanup.enter_context(_removed_if_empty(folder))
            folder.mkdir(parents=True, exist_ok=True)
            print(f"Logdir {folder}", flush=True)
            cleanup.enter_context(FolderLock(folder))
            cleanup.enter_context(_restored_if_refused(folder))
            keep_earlier(folder, config)
            config.save(folder / CONFIG)
            append_start(folder, sys.argv, config.seed, pathlib.Path(__file__).parents[1])
        except OSError as error:
            raise ConfigError(
                f"Cannot write to {folder} ({error.strerror}): make room or choose another folder "
                "with --logdir."
            ) from error
        yield


@contextlib.contextmanager
def _removed_if_empty(folder: pathlib.Path) -> Iterator[None]:
    """Remove a new folder if nothing is in it in the end."""
    new = not folder.exists()
    try:
        yield
    finally:
        if new and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


@contextlib.contextmanager
def _restored_if_refused(folder: pathlib.Path) -> Iterator[None]:
    """Undo what a start has stored about itself if it is refused.

    With a checkpoint of its own, it is a run that has begun, whose options are needed.
    """
    notes = (CONFIG, STARTS)
    begun_at = Checkpoint(folder / "ckpt").peek()
    before = {path.name for path in folder.iterdir()}
    content = {name: (folder / name).read_bytes() for name in notes if name in before}
    try:
        yield
    except (ConfigError, EnvError):
        if Checkpoint(folder / "ckpt").peek() != begun_at:
            raise
        for path in [*folder.glob("config-*.yaml"), *(folder / name for name in notes)]:
            if path.name not in before:
                path.unlink(missing_ok=True)
        for name, earlier in content.items():
            (folder / name).write_bytes(earlier)
        raise


def check_continues(config: Config) -> None:
    """Compare the options with those of the run that the logdir holds, if it holds one.

    Changes that leave the agent and its data alone are accepted and printed.

    Raises:
      ConfigError: If others differ; names them, parameters of other shapes and ways out.
    """
    folder = pathlib.Path(config.logdir)
    snapshot = Checkpoint(folder / "ckpt").peek()
    check_seeds(config, snapshot is not None)
    if snapshot is None and config.run.from_checkpoint:
        check_source(config)
    if snapshot is None or not (folder / CONFIG).is_file():
        return
    before = Config({"agent_class": agents.DEFAULT, **read_config(folder)})
    changed = changes(before, config)
    barring = {
        key: change
        for key, change in changed.items()
        if not _changeable(key, config) or (key == "script" and "ondevice" in change)
    }
    if barring:
        there = {} if config.random_agent else _saved_shapes(snapshot)
        here = factories.agent_shapes(config) if there else {}
        raise ConfigError(refusal(folder, barring, there, here))
    if changed := {key: change for key, change in changed.items() if key != "logdir"}:
        print(f"Continuing with other options (before -> now):\n{_list_changes(changed)}")


def check_seeds(config: Config, holds_run: bool) -> None:
    """Compare the number of seeds with that of the runs that the logdir holds.

    Args:
      config: The whole config.
      holds_run: Whether the logdir itself is the folder of a run, and not of several seeds.

    Raises:
      ConfigError: If it is another one.
    """
    folder, seeds = pathlib.Path(config.logdir), config.ondevice.seeds
    there = sum(Checkpoint(path).peek() is not None for path in folder.glob("seed*/ckpt"))
    there = there or int(holds_run)
    if (there and there != seeds) or (seeds > 1 and holds_run):
        raise ConfigError(
            f"Got ondevice.seeds={seeds}, but {folder} holds a run of "
            f"{there} seed{'' if there == 1 else 's'}; take the same number, or a new --logdir."
        )


def check_source(config: Config) -> None:
    """Check that a new run can start from the checkpoint that it names.

    Raises:
      ConfigError: If there is none, or what was asked for of it has other shapes.
    """
    source, pattern = config.run.from_checkpoint, config.run.from_checkpoint_regex
    snapshot = Checkpoint(source).peek()
    if snapshot is None:
        raise ConfigError(
            f"Got run.from_checkpoint '{source}', expected a folder with a complete checkpoint: "
            "that of a run, its 'ckpt' folder or one checkpoint in it."
        )
    if config.random_agent or agents.load(config.agent_class).acts_itself:
        return
    there, here = (
        {path: shape for path, shape in shapes.items() if re.search(pattern, path)}
        for shapes in (_saved_shapes(snapshot), factories.agent_shapes(config))
    )
    different = _differing(there, here)
    if different or not there:
        found = "\n".join([":", *different]) if different else " nothing that matches."
        raise ConfigError(
            f"Got run.from_checkpoint_regex '{pattern}', expected a pattern of parameters that "
            f"have the same shapes in {source} and here, but there is (there -> here){found}"
        )


def changes(before: Config, now: Config) -> Changes:
    """Options of both configs that differ, with both values, by dotted name."""
    old, new = before.flat, now.flat
    return {key: (old[key], new[key]) for key in old if key in new and old[key] != new[key]}


def refusal(folder: pathlib.Path, changed: Changes, there: Shapes, here: Shapes) -> str:
    """Say why a folder cannot be used with these options, and what to do.

    Args:
      folder: The folder of the run.
      changed: Options that differ.
      there: Shapes of the saved parameters by path.
      here: Shapes that they would have now.
    """
    different = _differing(there, here)
    lines = [
        f"{folder} holds a run with other options (there -> here):",
        _list_changes(changed),
    ]
    if different:
        lines += ["Parameters that differ in shape (there -> here):", *different]
    paths = there.keys() | here.keys()
    modules = {path.split("/")[0] for path in paths} - {"opt"}
    other = {path.split("/")[0] for path in paths if there.get(path) != here.get(path)}
    fitting = sorted(modules - other)
    lines.append("Nothing in the folder was changed. Start in a new folder, with --logdir NEW.")
    load = f"--logdir NEW --run.from_checkpoint {folder}"
    if not different:
        lines.append(f"This agent can go on there, with {load}")
    elif any(path.split("/")[0] in fitting and path.endswith("/kernel") for path in paths):
        # Normalizers and counters alone are nothing to begin with.
        pattern = f"'^({'|'.join(fitting)})/'"
        lines.append(
            "What fits of this agent can be taken there, with "
            f"{load} --run.from_checkpoint_regex {pattern}"
        )
    return "\n".join(lines)


def keep_earlier(folder: pathlib.Path, config: Config) -> None:
    """Move the options of an earlier start aside, as `config-1.yaml` and so on, if they differ."""
    path = folder / CONFIG
    if not path.is_file() or Config.load(path) == config:
        return
    names = (folder / f"config-{number}.yaml" for number in itertools.count(1))
    path.rename(next(name for name in names if not name.exists()))


def find_run(path: str) -> pathlib.Path:
    """Locate the folder of a run from that folder, its `ckpt` folder or one checkpoint.

    Returns:
      The folder that has a config, or the given one if none has.

    Raises:
      ConfigError: If there is no checkpoint.
    """
    place = pathlib.Path(path).expanduser().absolute()
    if not any(any(place.glob(f"{prefix}{MANIFEST}")) for prefix in ("", "*/", "ckpt/*/")):
        raise ConfigError(
            f"'{path}' has no checkpoint; give the folder of a run, its 'ckpt' folder or one "
            "checkpoint in it."
        )
    for folder in (place, place.parent, place.parent.parent):
        if (folder / CONFIG).is_file():
            return folder
    return place


def read_config(folder: pathlib.Path) -> Config:
    """Read the config of a run; a constructor that is stored in the folder has moved with it.

    Raises:
      FileNotFoundError: There is none.
    """
    config = Config.load(folder / CONFIG)
    task = str(config.get("task", ""))
    here = folder / pathlib.Path(task).name
    if task.endswith(import_path.SUFFIX) and here.is_file():
        config = config.update(task=str(here))
    return config


def saved_options(folder: pathlib.Path) -> dict[str, Value]:
    """Read the options of a run, by dotted name; none if its config is not there."""
    options: dict[str, Value] = {}
    with contextlib.suppress(FileNotFoundError):
        options = read_config(folder).flat
    return {key: value for key, value in options.items() if key not in _OWN}


def adopt(
    defaults: Config, options: Mapping[str, Value], open_sections: tuple[str, ...]
) -> tuple[Config, list[str]]:
    """Put the options of a run over the defaults.

    Args:
      defaults: All options that exist.
      options: Options of the run. Those of an agent that has a file of its own replace the section
        `agent`.
      open_sections: Sections that may have more options than the defaults.

    Returns:
      The config, and the options that no longer exist.
    """
    if options.get("agent_config"):
        own = {key: value for key, value in options.items() if key.startswith("agent.")}
        defaults = agents.replace_options(defaults, own)
    more = {k: v for k, v in options.items() if k not in defaults and k.startswith(open_sections)}
    config = Config({**defaults.flat, **more}) if more else defaults
    unknown = sorted(options.keys() - config.flat.keys())
    known = {key: value for key, value in options.items() if key in config.flat}
    return config.update(known), unknown


def append_start(
    folder: pathlib.Path, command: Sequence[str], seed: int, source: pathlib.Path
) -> None:
    """Append a line of JSON about this start of a run to `starts.jsonl` in its folder.

    Args:
      folder: The folder of the run.
      command: The command line.
      seed: Seed of the run.
      source: A folder of the program, whose revision is noted if it is in a git repository.
    """
    line = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": list(command),
        "seed": seed,
        "versions": package_versions(),
        "revision": revision(source),
        "platform": platform.platform(),
        "host": socket.gethostname(),
    }
    with (folder / STARTS).open("a") as file:
        file.write(json.dumps(line) + "\n")


def revision(folder: pathlib.Path) -> str:
    """Commit that the files of a folder are from, followed by `+` if they differ; '' if unknown."""
    commit = _git(folder, "rev-parse", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no", ".")
    return commit + "+" if commit and changed else commit


def _changeable(key: str, config: Config) -> bool:
    suite = registry.suite_of(config.task)
    foreign = key.startswith("env.") and not key.startswith(f"env.{suite}.")
    return foreign or bool(CHANGEABLE.fullmatch(key))


def _saved_shapes(snapshot: Snapshot) -> Shapes:
    from embodied.jax.params import SCALING

    prefix = "params/"
    arrays = snapshot.manifest["objects"].get("agent", {}).get("arrays", [])
    return {
        array["path"].removeprefix(prefix): tuple(array["shape"])
        for array in arrays
        if array["path"].startswith(prefix) and not SCALING.search(array["path"])
    }


def _differing(there: Shapes, here: Shapes) -> list[str]:
    """Lines about the first parameters that differ, those of networks before the optimizer's."""
    paths = [path for path in there.keys() | here.keys() if there.get(path) != here.get(path)]
    paths.sort(key=lambda path: (path.startswith("opt/"), path))
    lines = [f"  {path}  {_shape(there, path)} -> {_shape(here, path)}" for path in paths]
    if len(lines) > SHOWN_PARAMS:
        lines[SHOWN_PARAMS:] = [f"  and {len(lines) - SHOWN_PARAMS} more"]
    return lines


def _list_changes(changed: Changes) -> str:
    width = max(map(len, changed))
    lines = [
        f"  {key:<{width}}  {format_value(old)} -> {format_value(new)}"
        for key, (old, new) in changed.items()
    ]
    if len(lines) > SHOWN_OPTIONS:
        lines[SHOWN_OPTIONS:] = [f"  and {len(lines) - SHOWN_OPTIONS} more"]
    return "\n".join(lines)


def _shape(shapes: Shapes, path: str) -> Any:
    return list(shapes[path]) if path in shapes else "nothing"


def _git(folder: pathlib.Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
