"""Training and evaluation from Python: the same as the command line, in the program's process."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dreamerv3.cli import command_line, given_env, scripts
from dreamerv3.cli.presets import Presets
from embodied.core.config import Config, ConfigError
from embodied.core.suggest import hint
from embodied.run.callbacks import Callbacks
from embodied.run.session import Caller

if TYPE_CHECKING:
    from dreamerv3.policy import Policy


class Curve(NamedTuple):
    """Values of one metric, as arrays of the same length.

    Attributes:
      step: Environment frames at which each was logged.
      value: The values; NaN where they were not finite.
    """

    step: np.ndarray
    value: np.ndarray


@dataclasses.dataclass(frozen=True)
class TrainedRun:
    """A run that has ended, or was stopped and can go on.

    Attributes:
      logdir: Its folder, for `load_policy`, `evaluate` and the command line.
    """

    logdir: str

    @property
    def metrics(self) -> dict[str, Curve]:
        """Every metric of `metrics.jsonl` by its name."""
        return read_curves(pathlib.Path(self.logdir) / "metrics.jsonl")

    @property
    def scores(self) -> Curve:
        """Scores of the finished training episodes."""
        found = read_curves(pathlib.Path(self.logdir) / "scores.jsonl")
        return found.get("episode/score", Curve(np.zeros(0, np.int64), np.zeros(0)))

    def policy(self, mode: str = "sample") -> Policy:
        """Load the policy of the last checkpoint; see `load_policy`."""
        from dreamerv3.policy import load_policy

        return load_policy(self.logdir, mode)


def train(
    env: str | Callable[..., Any],
    *,
    presets: str | Sequence[str] = (),
    steps: float | None = None,
    logdir: str | os.PathLike[str] | None = None,
    options: Mapping[str, Any] | None = None,
    callbacks: Sequence[Any] | Callable[..., Any] = (),
    **unknown: Any,
) -> TrainedRun:
    """Train an agent, until the budget is reached or a callback stops it.

    It is what the command line does: the same folder, checkpoints and logs. The same call with the
    same folder continues. Ctrl+C, or a notebook's stop button, saves and then raises
    KeyboardInterrupt. See docs/python.md.

    Args:
      env: The name of a task, an import path `package.module:Name`, or a class or function that
        makes an environment of this project, of Gymnasium or of dm_env. A constructor that has
        them gets the keywords `seed` and `index`.
      presets: Blocks of configs.yaml, as for `--configs`.
      steps: Steps of the agent, all in all, as `run.steps`.
      logdir: Folder of the run; by default a new one in `~/logdir`.
      options: Other options by dotted name, nested, or as a `Config`.
      callbacks: Objects or functions that are told what happens, see `Callbacks` in
        `embodied/run/callbacks.py`.
      **unknown: Refused, with a hint.

    Raises:
      ConfigError, EnvError, FolderInUseError, PlatformError: Before anything is compiled, for
        what the command line ends with exit code 2 for.
      WorkerError, SpaceError: If an environment fails.
      KeyboardInterrupt: After Ctrl+C, when the run is saved.
      Exception: What a callback has raised, when the run is saved.
    """
    _refuse(unknown)
    given = _flat(options)
    if steps is not None:
        given["run.steps"] = steps
    folder = given.pop("logdir", Presets.load().defaults.logdir) if logdir is None else logdir
    folder = command_line.expand(os.fspath(folder))
    told = Callbacks([callbacks] if callable(callbacks) else [*callbacks])
    with given_env.named(env, folder) as task:
        words = ["--configs", *_names(presets)] if presets else []
        config = _config([*words, *_words({**given, "task": task, "logdir": folder})])
        if config.script not in scripts.CALLABLE:
            raise ConfigError(
                f"The script '{config.script}' starts processes of its own, so that it cannot be "
                f"called; use the command line, or one of {', '.join(scripts.CALLABLE)}."
            )
        if told and config.script not in scripts.TELLING:
            raise ConfigError(
                f"The script '{config.script}' has nothing to tell callbacks of, as what happens "
                f"is inside of one program; use one of {', '.join(scripts.TELLING)}."
            )
        _run(config, told)
    return TrainedRun(config.logdir)


def evaluate(
    logdir: str | os.PathLike[str],
    episodes: int = 10,
    options: Mapping[str, Any] | None = None,
) -> np.ndarray:
    """Run episodes of what a run has learned, without learning.

    Args:
      logdir: The folder of a run, its `ckpt` folder or one checkpoint, such as `ckpt/best`.
      episodes: Number of episodes.
      options: Options in place of those of the run, such as `{"eval.video": True}`.

    Returns:
      Scores of the episodes [episodes], in the order in which they ended, without those that
      `eval.max_length` cuts off. Files are in a folder below `eval/` in that of the run.

    Raises:
      ConfigError: If there is no checkpoint, or an option does not exist.
      WorkerError, SpaceError: If an environment fails.
      KeyboardInterrupt: After Ctrl+C.
    """
    given = {
        **_flat(options),
        "script": "eval_only",
        "run.from_checkpoint": os.fspath(logdir),
        "run.eval_eps": episodes,
    }
    config = _config(_words(given))
    _run(config, Callbacks())
    lines = (pathlib.Path(config.logdir) / "episodes.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    return np.array([line["score"] for line in found if not line.get("partial")], np.float64)


def read_curves(path: pathlib.Path) -> dict[str, Curve]:
    """Read the numbers of a file of metrics; a line that was cut is left out.

    Args:
      path: One JSON object per line, with `step`.
    """
    points: dict[str, list[tuple[int, float]]] = {}
    for text in path.read_text().splitlines() if path.is_file() else ():
        with contextlib.suppress(ValueError, KeyError):
            line = json.loads(text)
            step = line.pop("step")
            for key, value in line.items():
                if value is None or isinstance(value, int | float):
                    points.setdefault(key, []).append((step, np.nan if value is None else value))
    return {
        key: Curve(np.array([step for step, _ in found]), np.array([x for _, x in found], float))
        for key, found in points.items()
    }


def _config(words: list[str]) -> Config:
    resolved = command_line.parse(words)
    for note in resolved.notes:
        print(f"note: {note}", file=sys.stderr)
    return resolved.config


def _run(config: Config, callbacks: Callbacks) -> None:
    """Run a script in a process that goes on afterwards."""
    from dreamerv3.cli.launch import launch

    with _own_exceptions():
        launch(config, Caller(callbacks, own_process=False))


@contextlib.contextmanager
def _own_exceptions() -> Iterator[None]:
    """Turn the exit codes of a program into exceptions, as the process is not ours to end."""
    try:
        yield
    except SystemExit as end:
        if end.code == 128 + signal.SIGINT:
            raise KeyboardInterrupt("The run was stopped and is saved.") from None
        if end.code == 128 + signal.SIGTERM:
            signal.raise_signal(signal.SIGTERM)  # For those who handle it outside of the run.
        if isinstance(end.__cause__, Exception):
            raise end.__cause__ from None
        raise RuntimeError(f"The run ended with exit code {end.code}.") from end


def _refuse(unknown: Mapping[str, Any]) -> None:
    for name in unknown:
        known = ("presets", "steps", "logdir", "options", "callbacks")
        found = hint(name, known) or hint(name, Presets.load().defaults.flat)
        raise ConfigError(
            f"dreamerv3.train takes no argument '{name}', only env, {', '.join(known)}; options of "
            f"the program go into options={{...}} by their dotted names.{found}"
        )


def _names(presets: str | Sequence[str]) -> list[str]:
    return [presets] if isinstance(presets, str) else [*presets]


def _flat(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Options by dotted name."""
    flat: dict[str, Any] = {}
    for key, value in (options or {}).items():
        nested = _flat(value) if isinstance(value, Mapping) else {"": value}
        flat |= {f"{key}.{name}".rstrip("."): item for name, item in nested.items()}
    return flat


def _words(options: Mapping[str, Any]) -> list[str]:
    """Write options as on the command line, which checks and converts them."""
    words: list[str] = []
    for key, value in options.items():
        if isinstance(value, list | tuple):
            words += [f"--{key}", *map(str, value)] if value else [f"--{key}="]
        elif isinstance(value, bool | int | float | str | np.number | os.PathLike):
            words.append(f"--{key}={value}")
        else:
            raise ConfigError(
                f"Option '{key}' is {value!r}, expected a boolean, a number, a text or a list of "
                "them; arguments of another kind are for a function that makes the environment."
            )
    return words
