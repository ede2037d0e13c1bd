"""Tiny environments whose best and random returns are known, for tests of learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs, State
from embodied.core.space import Space
from embodied.core.suggest import hint
from embodied.envs.errors import UnknownTask

TASKS = ("cue", "memory", "cue_shuffled")
#: Those of `embodied.envs.pure.toy`.
JAX_TASKS = (*TASKS, "grid")
CUES = 4
HIDDEN, QUESTION = CUES, CUES + 1


class Toy(Env):
    """One of four actions pays; the tasks differ in what tells which.

    - `cue`: every observation shows the action that pays 1 now. Episodes of 10 steps.
    - `memory`: the cue is shown in the first observation only. `DELAY` steps later the observation
      asks for it, and the action given in response pays 1 if it equals the cue, which the last
      observation shows again. Actions before do not matter. Episodes of `DELAY + 1` steps.
    - `cue_shuffled`: looks like `cue`, but each step pays 1 with probability 1/4 whatever is done,
      so that nothing can be learned and the expected return is the random one.

    Observation `cue`: int32, the action that pays, or `HIDDEN`, or `QUESTION`. Every episode ends
    in a terminal step.

    Attributes:
      optimum: Expected return of the best policy.
      random_return: Expected return of uniformly random actions.
      length: Steps per episode after the reset.
    """

    LENGTH = 10
    DELAY = 5

    def __init__(self, task: str = "cue", seed: int = 0) -> None:
        """Create the environment.

        Args:
          task: `cue`, `memory` or `cue_shuffled`.
          seed: Seed of the cues and of the shuffled rewards.

        Raises:
          UnknownTask: None of these.
        """
        if task not in TASKS:
            raise UnknownTask(
                f"Unknown toy task {task!r}, expected one of {', '.join(TASKS)}.{hint(task, TASKS)}"
            )
        self._memory = task == "memory"
        self._shuffled = task == "cue_shuffled"
        self._rng = np.random.default_rng(seed)
        self._count = 0
        self._cue = 0
        self._done = True
        self.length = self.DELAY + 1 if self._memory else self.LENGTH
        paid_steps = 1 if self._memory else self.LENGTH
        self.random_return = paid_steps / CUES
        self.optimum = self.random_return if self._shuffled else float(paid_steps)

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of what `step` returns."""
        return {
            "cue": Space(np.int32, (), 0, CUES + 2),
            "reward": Space(np.float32),
            "is_first": Space(bool),
            "is_last": Space(bool),
            "is_terminal": Space(bool),
        }

    @property
    def act_space(self) -> dict[str, Space]:
        """Spaces of what `step` takes."""
        return {"action": Space(np.int32, (), 0, CUES), "reset": Space(bool)}

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Pay for the action, then show the next cue."""
        first = bool(action["reset"]) or self._done
        if first:
            self._count = 0
            reward = 0.0
        else:
            reward = self._reward(int(action["action"]))
            self._count += 1
        if first or not self._memory:
            self._cue = int(self._rng.integers(CUES))
        self._done = self._count >= self.length
        return {
            "cue": np.int32(self._observe()),
            "reward": np.float32(reward),
            "is_first": np.bool_(first),
            "is_last": np.bool_(self._done),
            "is_terminal": np.bool_(self._done),
        }

    def save(self) -> State:
        """Return the position in the episode and the random generator."""
        return {
            "count": self._count,
            "cue": self._cue,
            "done": self._done,
            "rng": self._rng.bit_generator.state,
        }

    def load(self, state: State) -> None:
        """Continue where `save` was called."""
        self._count = state["count"]
        self._cue = state["cue"]
        self._done = state["done"]
        self._rng.bit_generator.state = state["rng"]

    def _reward(self, choice: int) -> float:
        """Pay for an action that answers the observation shown last."""
        if self._shuffled:
            return float(self._rng.integers(CUES) == 0)
        if self._memory and self._count < self.DELAY:
            return 0.0
        return float(choice == self._cue)

    def _observe(self) -> int:
        """Show the cue, hide it, or ask for it."""
        if not self._memory or self._count in (0, self.length):
            return self._cue
        return QUESTION if self._count == self.DELAY else HIDDEN
