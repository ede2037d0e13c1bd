"""Runs an environment with random actions and reports whatever breaks the `Env` contract.

`python -m embodied.envs.check TASK [--steps N] [--seed N] [--<constructor argument> VALUE ...]`
prints a table of keys, shapes, dtypes and ranges, episode lengths, terminal steps, steps per second
and every violation. Exit code 1 if there are any, 2 for a wrong command line.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from embodied.core.interfaces import Env
from embodied.core.program import run_program
from embodied.core.space import Space
from embodied.envs import registry
from embodied.envs.errors import EnvError

FLAGS = ("is_first", "is_last", "is_terminal")


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
      seconds: Time inside `env.step`.
      violations: Sentence per kind of violation, with the number of times and the first step.
    """

    spaces: dict[str, Space] = dataclasses.field(default_factory=dict)
    ranges: dict[str, Range] = dataclasses.field(default_factory=dict)
    lengths: list[int] = dataclasses.field(default_factory=list)
    terminals: int = 0
    steps: int = 0
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
        lines += [
            "",
            f"steps {self.steps}, steps per second {rate}",
            f"episodes ended {len(self.lengths)}, terminal {self.terminals}, lengths {lengths}",
            f"violations {len(self.violations)}",
        ]
        for kind, (count, first, words) in self.violations.items():
            lines.append(f"  {kind}: {words} (first at step {first}, {count} in total)")
        return "\n".join(lines)


def check(env: Env, steps: int = 200, seed: int = 0) -> Report:
    """Step an environment with random actions and compare everything with its contract.

    One reset is forced in the middle of an episode, after a quarter of the steps.

    Args:
      env: The environment; it is not closed.
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
    _check_spaces(report, obs_space, act_space)
    if report.violations:
        return report
    _run(report, env, steps, np.random.default_rng(seed))
    if dict(env.obs_space) != obs_space or dict(env.act_space) != act_space:
        report.violate("spaces", "obs_space or act_space changed while stepping")
    return report


def _run(report: Report, env: Env, steps: int, rng: np.random.Generator) -> None:
    """Take the steps."""
    obs_space, act_space = dict(env.obs_space), dict(env.act_space)
    length, ended, force = 0, True, False
    previous: dict[str, tuple[Any, Any]] = {}
    for step in range(steps):
        force = force or step == steps // 4
        reset = ended or (force and length > 0)
        force = force and not (reset and not ended)
        action: dict[str, Any] = {key: space.sample(rng) for key, space in act_space.items()}
        action["reset"] = np.bool_(reset)
        start = time.perf_counter()
        try:
            obs = env.step(action)
        except Exception as error:
            report.violate("exception", f"step raised {_describe(error)}")
            return
        report.seconds += time.perf_counter() - start
        for key, (array, copy) in previous.items():
            if not np.array_equal(array, copy, equal_nan=array.dtype.kind == "f"):
                report.violate(
                    f"{key} aliased", "the array changed at the next step, return a copy"
                )
        if not isinstance(obs, Mapping):
            report.violate("observation", f"expected a dict, got {type(obs).__name__}")
            return
        _check_values(report, obs, obs_space)
        if all(key in obs and np.ndim(obs[key]) == 0 for key in (*FLAGS, "reward")):
            _check_flags(report, obs, reset)
        length = 0 if reset else length + 1
        ended = bool(np.any(obs.get("is_last", False)))
        if ended:
            report.lengths.append(length)
            report.terminals += bool(np.any(obs.get("is_terminal", False)))
        arrays = {key: value for key, value in obs.items() if isinstance(value, np.ndarray)}
        previous = {key: (value, value.copy()) for key, value in arrays.items()}
        report.steps += 1


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
    if "reset" in obs_space:
        report.violate("reset", "'reset' is an action key and cannot be an observation")


def _check_values(report: Report, obs: Mapping[str, Any], obs_space: Mapping[str, Space]) -> None:
    """Check the keys of an observation and that every value is in its space."""
    for key in obs_space:
        if key not in obs and not key.startswith("log/"):
            report.violate(f"{key} missing", "declared in obs_space but not in the observation")
    for key, value in obs.items():
        if key not in obs_space:
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


def _describe(error: Exception) -> str:
    """Name an error and the line that raised it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({frame.filename}, line {frame.lineno})"


def _parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, dict[str, Any]]:
    """Split the command line into our options and constructor arguments."""
    parser = argparse.ArgumentParser("python -m embodied.envs.check", description=__doc__)
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
        env = registry.make(options.task, overrides, seed=options.seed)
    except EnvError as error:
        print(error, file=sys.stderr)
        return 2
    try:
        report = check(env, options.steps, options.seed)
    finally:
        env.close()
    print(report.text())
    return 1 if report.violations else 0


if __name__ == "__main__":
    run_program(main)
