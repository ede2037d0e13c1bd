"""Observe how much reward came lately."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs, State
from embodied.core.space import Space
from embodied.core.wrappers.base import Wrapper


class BackwardReturn(Wrapper):
    """Adds the observation `bwreturn`, the discounted sum of past rewards of the episode.

    With discount g = 1 - 1 / horizon, `bwreturn_t = reward_t + g * bwreturn_{t-1}`, where the
    previous value is 0 at the first step of an episode. Float32, shape ().
    """

    KEY = "bwreturn"

    def __init__(self, env: Env, horizon: float) -> None:
        """Wrap an environment.

        Args:
            env: Environment to wrap.
            horizon: Steps over which to look back, at least 1.

        Raises:
            ValueError: If the horizon is less than 1 or the key is taken.
        """
        super().__init__(env)
        if horizon < 1:
            raise ValueError(f"Got horizon {horizon}, expected at least 1 step.")
        if self.KEY in env.obs_space:
            raise ValueError(f"Got an environment with key {self.KEY!r}, expected it to be free.")
        self._discount = 1 - 1 / horizon
        self._value = 0.0

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of the observation and of the backward return."""
        return {**self.env.obs_space, self.KEY: Space(np.float32)}

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Step and add the backward return."""
        obs = self.env.step(action)
        previous = 0.0 if obs["is_first"] else self._value
        self._value = float(obs["reward"]) + self._discount * previous
        return {**obs, self.KEY: np.float32(self._value)}

    def save(self) -> State | None:
        """Save the environment and the return so far."""
        inner = super().save()
        return None if inner is None else {"env": inner, "value": self._value}

    def load(self, state: State) -> None:
        """Continue where `save` was called."""
        super().load(state["env"])
        self._value = state["value"]
