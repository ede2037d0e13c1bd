"""Repeat every action."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs
from embodied.core.wrappers.base import Wrapper


class ActionRepeat(Wrapper):
    """Applies each action several times, sums the rewards and returns the last observation.

    Stops early when the episode ends. Resets are not repeated (spec row 7.5).
    """

    def __init__(self, env: Env, repeat: int) -> None:
        """Wrap an environment.

        Args:
            env: Environment to wrap.
            repeat: How often to apply each action, at least 1.

        Raises:
            ValueError: If `repeat` is less than 1.
        """
        super().__init__(env)
        if repeat < 1:
            raise ValueError(f"Got action repeat {repeat}, expected at least 1.")
        self._repeat = repeat

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Apply the action `repeat` times, or reset once."""
        obs = self.env.step(action)
        if action["reset"]:
            return obs
        reward = np.float32(obs["reward"])
        for _ in range(self._repeat - 1):
            if obs["is_last"] or obs["is_terminal"] or obs["is_first"]:
                break
            obs = self.env.step(action)
            reward += np.float32(obs["reward"])
        # An environment may start an episode of its own accord, such as one that was restarted.
        return obs if obs["is_first"] else {**obs, "reward": reward}
