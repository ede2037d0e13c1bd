"""Crafter, a survival game in two dimensions with 22 achievements (Hafner, 2021)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs
from embodied.core.space import Space
from embodied.core.suggest import hint
from embodied.envs.errors import UnknownTask

TASKS = ("reward", "noreward")
#: Steps of an episode in the paper's protocol.
LENGTH = 10_000


class Crafter(Env):
    """The game with (`reward`) or without (`noreward`) a reward for new achievements and health.

    Death is terminal, the time limit is not. The package walks through sets of objects, whose order
    Python does not fix, so episodes of the same seed start alike but need not go on alike.
    """

    def __init__(
        self,
        task: str = "reward",
        size: tuple[int, int] = (64, 64),
        logs: bool = False,
        length: int = LENGTH,
        seed: int = 0,
    ) -> None:
        """Create the world.

        Args:
          task: `reward` or `noreward`.
          size: Height and width of the picture in pixels.
          logs: Log how often each achievement was reached in the episode so far, as
            `log/achievement_<name>`, and what the reward is or would be, as `log/reward`.
          length: Steps until the time limit.
          seed: Seed of the worlds.

        Raises:
          UnknownTask: None of the two.
        """
        if task not in TASKS:
            raise UnknownTask(
                f"Unknown crafter task {task!r}, expected one of {', '.join(TASKS)}."
                f"{hint(task, TASKS)}"
            )
        crafter = importlib.import_module("crafter")
        self._size = (int(size[0]), int(size[1]))
        # The package takes the width first.
        self._env = crafter.Env(
            size=self._size[::-1], reward=task == "reward", length=length, seed=seed
        )
        self._achievements = tuple(crafter.constants.achievements) if logs else ()
        self._actions = len(crafter.constants.actions)
        self._logs = logs
        self._done = True

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of what `step` returns."""
        spaces = {
            "image": Space(np.uint8, (*self._size, 3)),
            "reward": Space(np.float32),
            "is_first": Space(bool),
            "is_last": Space(bool),
            "is_terminal": Space(bool),
        }
        if self._logs:
            spaces["log/reward"] = Space(np.float32)
        for name in self._achievements:
            spaces[f"log/achievement_{name}"] = Space(np.int32, (), 0)
        return spaces

    @property
    def act_space(self) -> dict[str, Space]:
        """Spaces of what `step` takes."""
        return {"action": Space(np.int32, (), 0, self._actions), "reset": Space(bool)}

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Act in the world, or create a new one."""
        if action["reset"] or self._done:
            return self._observe(self._env.reset(), 0.0, {}, first=True)
        image, reward, done, info = self._env.step(int(action["action"]))
        return self._observe(image, reward, info, last=done, terminal=info["discount"] == 0)

    def _observe(
        self,
        image: np.ndarray,
        reward: float,
        info: Mapping[str, Any],
        first: bool = False,
        last: bool = False,
        terminal: bool = False,
    ) -> Obs:
        """Build the observation."""
        self._done = bool(last)
        obs: Obs = {
            "image": np.ascontiguousarray(image),
            "reward": np.float32(reward),
            "is_first": np.bool_(first),
            "is_last": np.bool_(last),
            "is_terminal": np.bool_(terminal),
        }
        if self._logs:
            obs["log/reward"] = np.float32(info.get("reward", 0))
        counts = info.get("achievements", {})
        for name in self._achievements:
            obs[f"log/achievement_{name}"] = np.int32(counts.get(name, 0))
        return obs
