"""Runs an environment with random actions and reports whatever breaks the `Env` contract.

`python -m embodied.envs.check TASK [--steps N] [--seed N] [--<constructor argument> VALUE ...]`
prints a table of keys, shapes, dtypes and ranges, episode lengths, terminal steps, steps per second
and every violation. Exit code 1 if there are any, 2 for a wrong command line. A task that computes
many instances at once is checked with three of them. Of an environment in JAX, the functions are
checked first, and it is stepped if they are sound.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import pathlib
import re
import sys
import sysconfig
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from embodied.core.interfaces import Env
from embodied.core.program import program_text, run_program
from embodied.core.space import Space, SpaceError
from embodied.envs import registry
from embodied.envs.errors import EnvError

FLAGS = ("is_first", "is_last", "is_terminal")
#: Instances of a task that computes many at once.
INSTANCES = 3
#: Folders of code that is not the user's.
FOREIGN = (
    str(pathlib.Path(__file__).parents[1]),
    *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
    "<",
)


@dataclasses.dataclass
class Range:
    """Smallest and largest value of a key so far, over all its elements."""

    low: float = np.inf
    high: float = -np.inf

    def add(self, value: Any) -> None:
        """Include an array; what is not a number, and NaN, is left out."""
        array = np.asarray(value)
        if array.dtype.kind in "biuf" and array.size:
            self.low = min(self.low, float(np.fmin.reduce(array, axis=None)))
            self.high = max(self.high, float(np.fmax.reduce(array, axis=None)))


@dataclasses.dataclass
class Report:
    """What `check` found.

    Attributes:
      spaces: Space per observation and action key; action keys are prefixed with `action `.
      ranges: Observed range per observation key.
      lengths: Steps of each finished episode, without the reset.
      terminals: Number of episodes that ended in a terminal step.
      steps: Steps taken, resets included.
      instances: Number of environments that step together.
      notes: Sentences of the adapter on how it translates observations.
      seconds: Time inside `env.step`.
      violations: Sentence per kind of violation, with the number of times and the first step.
    """

    spaces: dict[str, Space] = dataclasses.field(default_factory=dict)
    ranges: dict[str, Range] = dataclasses.field(default_factory=dict)
    lengths: list[int] = dataclasses.field(default_factory=list)
    terminals: int = 0
    steps: int = 0
    instances: int = 1
    notes: list[str] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    violations: dict[str, tuple[int, int, str]] = dataclasses.field(default_factory=dict)

    def violate(self, kind: str, detail: str) -> None:
        """Note a violation; of each kind the first is kept in words and the others are counted."""
        count, first, words = self.violations.get(kind, (0, self.steps, detail))
        self.violations[kind] = (count + 1, first, words)

    def text(self) -> str:
        """Lay the report out for a terminal."""
        rows = [("key", "dtype", "shape", "declared", "observed")]
        for key, space in self.spaces.items():
            seen = self.ranges.get(key, Range())
            observed = f"{seen.low:.4g} to {seen.high:.4g}" if seen.low <= seen.high else "-"
            rows.append((key, str(space.dtype), str(space.shape), _declared(space), observed))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        rate = f"{self.steps / self.seconds:.0f}" if self.seconds else "-"
        lengths = f"{min(self.lengths)} to {max(self.lengths)}" if self.lengths else "none ended"
        together = f" of {self.instances} instances" if self.instances > 1 else ""
        lines += [
            "",
            *(f"note: {note}" for note in self.notes),
            f"steps {self.steps}{together}, steps per second {rate}",
            f"episodes ended {len(self.lengths)}, terminal {self.terminals}, lengths {lengths}",
            f"violations {len(self.violations)}",
        ]
        for kind, (count, first, words) in self.violations.items():
            lines.append(f"  {kind}: {words} (first at step {first}, {count} in total)")
        return "\n".join(lines)


def check(env: Env, steps: int = 200, seed: int = 0) -> Report:
    """Step an environment with random actions and compare everything with its contract.

    One reset is forced in the middle of an episode, after a quarter of the steps. After an error,
    the check goes on with a reset, as long as that works.

    Args:
      env: The environment, or a `BatchedEnv`; it is not closed.
      steps: Number of calls of `env.step`.
      seed: Seed of the actions.
    """
    report = Report()
    try:
        obs_space, act_space = dict(env.obs_space), dict(env.act_space)
    except Exception as error:
        report.violate("spaces", f"obs_space or act_space raised {_describe(error)}")
        return report
    report.spaces = {**obs_space, **{f"action {key}": space for key, space in act_space.items()}}
    report.notes = list(getattr(env, "notes", ()))
    _check_spaces(report, obs_space, act_space)
    if _unsound(report, getattr(env, "pure", None), seed):
        return report
    # What is declared wrong is not compared with what is declared.
    sound = {key: space for key, space in obs_space.items() if key not in report.violations}
    _run(report, env, steps, np.random.default_rng(seed), sound)
    if dict(env.obs_space) != obs_space or dict(env.act_space) != act_space:
        report.violate("spaces", "obs_space or act_space changed while stepping")
    return report


def _unsound(report: Report, pure: Any, seed: int) -> bool:
    """Check the functions of an environment in JAX, if it is one."""
    if pure is None:
        return False
    from embodied.envs.pure.check import faults

    found = faults(pure, seed)
    for kind, words in found.items():
        report.violate(kind, words)
    return bool(found)


@dataclasses.dataclass
class Episode:
    """Where one instance is in its episode."""

    length: int = 0
    ended: bool = True


def _run(
    report: Report, env: Env, steps: int, rng: np.random.Generator, sound: Mapping[str, Space]
) -> None:
    """Take the steps."""
    act_space, size = dict(env.act_space), getattr(env, "batch_size", None)
    report.instances = size or 1
    episodes = [Episode() for _ in range(report.instances)]
    force = False
    previous: dict[str, tuple[Any, Any]] = {}
    for step in range(steps):
        force = force or step == steps // 4
        resets = np.array([episode.ended for episode in episodes])
        if force and not resets.any() and min(episode.length for episode in episodes) > 0:
            resets[:], force = True, False
        actions = [_action(act_space, reset, rng) for reset in resets]
        stacked = {key: np.stack([action[key] for action in actions]) for key in actions[0]}
        start = time.perf_counter()
        try:
            obs = env.step(actions[0] if size is None else stacked)
        except Exception as error:
            _report_error(report, error)
            report.steps += 1
            if resets.all():
                return
            episodes = [Episode() for _ in episodes]
            continue
        report.seconds += time.perf_counter() - start
        for key, (array, copy) in previous.items():
            if not np.array_equal(array, copy, equal_nan=array.dtype.kind == "f"):
                report.violate(
                    f"{key} aliased", "the array changed at the next step, return a copy"
                )
        parts = _split(report, obs, size)
        if parts is None:
            return
        for part, reset, episode in zip(parts, resets, episodes, strict=True):
            _check_step(report, part, bool(reset), episode, sound)
        arrays = {key: value for key, value in obs.items() if isinstance(value, np.ndarray)}
        previous = {key: (value, value.copy()) for key, value in arrays.items()}
        report.steps += 1


def _action(
    act_space: Mapping[str, Space], reset: bool, rng: np.random.Generator
) -> dict[str, Any]:
    """Draw an action."""
    action: dict[str, Any] = {key: space.sample(rng) for key, space in act_space.items()}
    return action | {"reset": np.bool_(reset)}


def _split(report: Report, obs: Any, size: int | None) -> list[Mapping[str, Any]] | None:
    """List the observations of all instances; None if they cannot be told apart."""
    if not isinstance(obs, Mapping):
        report.violate("observation", f"expected a dict, got {type(obs).__name__}")
        return None
    if size is None:
        return [obs]
    for key, value in obs.items():
        if np.shape(value)[:1] != (size,):
            shape = np.shape(value)
            report.violate(f"{key} value", f"expected {size} instances in front, got shape {shape}")
            return None
    return [{key: value[index] for key, value in obs.items()} for index in range(size)]


def _check_step(
    report: Report,
    obs: Mapping[str, Any],
    reset: bool,
    episode: Episode,
    obs_space: Mapping[str, Space],
) -> None:
    """Check one observation of one instance."""
    _check_values(report, obs, obs_space)
    if all(key in obs and np.ndim(obs[key]) == 0 for key in (*FLAGS, "reward")):
        _check_flags(report, obs, reset)
    episode.length = 0 if reset else episode.length + 1
    episode.ended = bool(np.any(obs.get("is_last", False)))
    if episode.ended:
        report.lengths.append(episode.length)
        report.terminals += bool(np.any(obs.get("is_terminal", False)))


def _check_spaces(report: Report, obs_space: Any, act_space: Any) -> None:
    """Check that the keys that every environment has are declared, with the right type."""
    wanted = [(obs_space, "reward", np.float32), *((obs_space, key, bool) for key in FLAGS)]
    wanted.append((act_space, "reset", bool))
    for spaces, key, dtype in wanted:
        side = "act_space" if spaces is act_space else "obs_space"
        if key not in spaces:
            report.violate(key, f"{side} has no {key!r}")
        elif spaces[key].dtype != np.dtype(dtype) or spaces[key].shape != ():
            expected = Space(dtype)
            report.violate(key, f"{side} declares {spaces[key]}, expected {expected}")
    for key in sorted({*obs_space} & {*act_space}):
        report.violate(key, "the same key is both an observation and an action")
    if not any(key not in (*FLAGS, "reward") and key[:4] != "log/" for key in obs_space):
        report.violate("observations", "there is no key besides reward and flags to learn from")
    if "reset" in obs_space:
        report.violate("reset", "'reset' is an action key and cannot be an observation")


def _check_values(report: Report, obs: Mapping[str, Any], obs_space: Mapping[str, Space]) -> None:
    """Check the keys of an observation and that every value is in its space."""
    for key in obs_space:
        if key not in obs and not key.startswith("log/"):
            report.violate(f"{key} missing", "declared in obs_space but not in the observation")
    for key, value in obs.items():
        if key not in obs_space:
            if key in report.violations:
                continue
            report.violate(f"{key} extra", "in the observation but not declared in obs_space")
            continue
        if isinstance(value, np.ndarray | np.generic):
            report.ranges.setdefault(key, Range()).add(value)
        reason = obs_space[key].explain(value)
        if reason is not None:
            report.violate(f"{key} value", reason)


def _check_flags(report: Report, obs: Mapping[str, Any], reset: bool) -> None:
    """Check the episode protocol."""
    first, last, terminal = (bool(obs[key]) for key in FLAGS)
    if reset and not first:
        report.violate("reset", "is_first is False after an action with reset")
    if first and not reset:
        report.violate("is_first", "True without an action with reset")
    if first and float(obs["reward"]) != 0:
        report.violate("reward", f"expected 0 in a first step, got {obs['reward']}")
    if first and last:
        report.violate("is_last", "True in the first step of an episode")
    if terminal and not last:
        report.violate("is_terminal", "True without is_last")


def _declared(space: Space) -> str:
    """Put the bounds of a space in a few characters."""
    if space.dtype == np.dtype(bool) or not space.low.size:
        return "-"
    low, high = space.low.min(), space.high.max()
    if space.discrete:
        return f"{low} to {int(high) - 1}"
    return "unbounded" if np.isinf([low, high]).all() else f"{low:.4g} to {high:.4g}"


def _report_error(report: Report, error: Exception) -> None:
    """Note what a step raised; of an invalid observation, each key by itself."""
    if not isinstance(error, SpaceError):
        report.violate(f"exception {type(error).__name__}", f"step raised {_describe(error)}")
        return
    for words in re.split(r" ?Invalid observation: ", str(error)):
        key = re.match(r"key '([^']*)': ", words)
        if words:
            kind = f"{key[1]} value" if key else "observation"
            report.violate(kind, words[key.end() :] if key else words)


def _describe(error: Exception) -> str:
    """Name an error and the line of the user's that raised it or called what did."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(FOREIGN)]
    frame = (own or frames)[-1]
    return f"{type(error).__name__}: {error} ({frame.filename}, line {frame.lineno})"


def _parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, dict[str, Any]]:
    """Split the command line into our options and constructor arguments."""
    parser = argparse.ArgumentParser(
        program_text("check-env", "python -m embodied.envs.check"), description=__doc__
    )
    parser.add_argument("task", help="suite_task or package.module:Name")
    parser.add_argument("--steps", type=int, default=200, help="calls of env.step")
    parser.add_argument("--seed", type=int, default=0, help="seed of environment and actions")
    options, rest = parser.parse_known_args(arguments)
    overrides: dict[str, Any] = {}
    values: list[Any] = []
    for word in rest:
        if word.startswith("--"):
            key, equals, value = word[2:].partition("=")
            values = overrides.setdefault(key, [])
            if equals:
                values.append(_literal(value))
        else:
            values.append(_literal(word))
    for key, found in overrides.items():
        if not found:
            parser.error(f"Got --{key} without a value, expected one or several.")
    single = {
        key: found[0] if len(found) == 1 else tuple(found) for key, found in overrides.items()
    }
    return options, single


def _literal(word: str) -> Any:
    """Read a number, boolean or other literal; anything else is a string."""
    try:
        return ast.literal_eval({"true": "True", "false": "False"}.get(word, word))
    except (ValueError, SyntaxError):
        return word


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options, overrides = _parse(sys.argv[1:] if arguments is None else arguments)
    try:
        registry.check(options.task, overrides)
        if registry.is_batched(options.task, overrides):
            env = registry.make_batch(options.task, overrides, INSTANCES, seed=options.seed)
        else:
            env = registry.make(options.task, overrides, seed=options.seed)
    except EnvError as error:
        print(error, file=sys.stderr)
        return 2
    except Exception as error:
        print(f"The environment cannot be made: {_describe(error)}", file=sys.stderr)
        return 1
    try:
        report = check(env, options.steps, options.seed)
    finally:
        env.close()
    print(report.text())
    return 1 if report.violations else 0


if __name__ == "__main__":
    run_program(main)
