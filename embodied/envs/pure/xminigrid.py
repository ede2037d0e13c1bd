"""XLand-MiniGrid: grid worlds with rules in JAX (Nikulin et al., 2023)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from embodied.core.space import Space
from embodied.core.suggest import hint
from embodied.envs.errors import UnknownTask
from embodied.envs.pure.trees import strong
from embodied.jax.pure_env import Arrays, PureEnv, State


class XMiniGrid(PureEnv):
    """One world, such as `MiniGrid-Empty-5x5`, with its own time limit.

    Observation: `vector`, tile and color of each cell in view as classes. `log/success` is 1 in a
    terminal step that pays.
    """

    def __init__(self, task: str) -> None:
        """Find the world.

        Args:
          task: Id of the package.

        Raises:
          UnknownTask: The package knows no such world.
        """
        xminigrid = importlib.import_module("xminigrid")
        known = xminigrid.registered_environments()
        if task not in known:
            raise UnknownTask(f"xminigrid knows no world {task!r}.{hint(task, known)}")
        self._env, self._params = xminigrid.make(task)
        constants = importlib.import_module("xminigrid.core.constants")
        rows, columns, layers = self._env.observation_shape(self._params)
        classes = max(constants.NUM_TILES, constants.NUM_COLORS)
        self._vector = Space(np.int32, (rows * columns, layers), 0, classes)

    @property
    def obs_space(self) -> Mapping[str, Space]:
        """What is in view, and whether the goal was reached."""
        return {"vector": self._vector, "log/success": Space(np.float32)}

    @property
    def act_space(self) -> Mapping[str, Space]:
        """One of the actions of the package."""
        return {"action": Space(np.int32, (), 0, self._env.num_actions(self._params))}

    def reset(self, key: jax.Array) -> tuple[State, Arrays]:
        """Make a world."""
        timestep = strong(self._env.reset(self._params, key))
        return timestep, self._show(timestep)

    def step(self, state: State, action: Arrays, key: jax.Array) -> tuple[State, Arrays]:
        """Act."""
        timestep = strong(self._env.step(self._params, state, action["action"]))
        terminal = timestep.last() & (timestep.discount == 0)
        reward = timestep.reward.astype(jnp.float32)
        return timestep, {
            **self._show(timestep),
            "reward": reward,
            "is_last": timestep.last(),
            "is_terminal": terminal,
            "log/success": (terminal & (reward > 0)).astype(jnp.float32),
        }

    def draw(self, state: State) -> Any:
        """Draw the whole grid."""
        return self._env.render(self._params, state)

    def _show(self, timestep: Any) -> Arrays:
        return {"vector": timestep.observation.astype(jnp.int32).reshape(self._vector.shape)}
