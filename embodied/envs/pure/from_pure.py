"""Pure environments in the host loop: for evaluation, and to compare the two loops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from embodied.core.interfaces import Env, Obs
from embodied.core.space import Space
from embodied.envs.pure import toy
from embodied.jax.pure_env import PureEnv, advance, initial, whole_obs_space


class FromPure(Env):
    """One pure environment, computed on the CPU."""

    def __init__(self, env: PureEnv, seed: int = 0) -> None:
        """Adapt an environment.

        Args:
          env: The environment.
          seed: Seed of its random keys.
        """
        self._env, self._device = env, jax.devices("cpu")[0]
        self._spaces = whole_obs_space(env), {**env.act_space, "reset": Space(bool)}
        self._count = 0
        with jax.default_device(self._device):
            self._key = jax.random.PRNGKey(seed)
            self._state = jax.jit(lambda key: initial(env, 1, key))(self._key)
        self._advance = jax.jit(lambda *args: advance(env, *args))

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of what `step` returns."""
        return self._spaces[0]

    @property
    def act_space(self) -> dict[str, Space]:
        """Spaces of what `step` takes."""
        return self._spaces[1]

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Act, or start an episode."""
        given = {key: np.asarray(action[key], x.dtype)[None] for key, x in self.act_space.items()}
        reset = given.pop("reset")
        count = np.int32(self._count)
        with jax.default_device(self._device):
            self._state, obs = self._advance(self._state, given, reset, self._key, count)
        self._count += 1
        return {key: np.asarray(value)[0] for key, value in obs.items()}


class JaxToy(FromPure):
    """One of the toy environments."""

    def __init__(self, task: str = "cue", seed: int = 0) -> None:
        """Make it.

        Args:
          task: Name of the toy.
          seed: Seed of its random keys.

        Raises:
          UnknownTask: There is none of that name.
        """
        super().__init__(toy.make(task), seed)
