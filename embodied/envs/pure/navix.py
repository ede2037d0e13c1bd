"""NAVIX, the grid worlds of MiniGrid in JAX (Pignatelli et al., 2024)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from embodied.core.space import Space
from embodied.core.suggest import hint
from embodied.envs.errors import UnknownOption, UnknownTask
from embodied.envs.leaf import observation_leaf
from embodied.envs.pure.trees import strong, to_picture
from embodied.jax.pure_env import Arrays, PureEnv, State

#: Observation functions of the package by our name for them.
VIEWS = ("symbolic", "symbolic_first_person", "categorical", "rgb", "rgb_first_person")
#: Range of the symbols. The package declares others than it observes: walls are -1 in categorical
#: views, and the largest number is that of the player, 10.
LOWEST, HIGHEST = -1, 10
TERMINAL = 2


class Navix(PureEnv):
    """One grid world, such as `Empty-5x5`. Reaching the goal pays and is terminal.

    Observation: `vector`, the grid as classes, or `image` for the views that are pictures.
    `log/success` is 1 in a terminal step that pays.
    """

    def __init__(
        self,
        task: str,
        view: str = "symbolic",
        size: tuple[int, int] = (64, 64),
        length: int = 100,
    ) -> None:
        """Find the world.

        Args:
          task: Id without `Navix-` and the version, or the whole id.
          view: What is observed, one of `VIEWS`.
          size: Height and width that pictures are scaled to.
          length: Steps until the time limit, which is not terminal.

        Raises:
          UnknownTask: The package knows no such world.
          UnknownOption: There is no such view.
        """
        if view not in VIEWS:
            raise UnknownOption(f"Got view {view!r}, expected one of {', '.join(VIEWS)}.")
        navix = importlib.import_module("navix")
        self._views = importlib.import_module("navix.observations")
        name = task if task.startswith("Navix-") else f"Navix-{task}-v0"
        known = sorted(navix.registry())
        if name not in known:
            raise UnknownTask(f"navix knows no world {name!r}.{hint(name, known)}")
        function = getattr(self._views, view)
        self._env = navix.make(name, max_steps=length, observation_fn=function)
        self._size = (int(size[0]), int(size[1]))
        shape = tuple(self._env.observation_space.shape)
        if view.startswith("rgb"):
            self._obs_space = {"image": Space(np.uint8, (*self._size, 3))}
        else:
            leaf = observation_leaf(np.int32, shape, LOWEST, HIGHEST)
            self._obs_space = {"vector": leaf.space}
        self._actions = int(np.asarray(self._env.action_space.maximum)) + 1

    @property
    def obs_space(self) -> Mapping[str, Space]:
        """What is seen, and whether the goal was reached."""
        return {**self._obs_space, "log/success": Space(np.float32)}

    @property
    def act_space(self) -> Mapping[str, Space]:
        """One of the actions of MiniGrid."""
        return {"action": Space(np.int32, (), 0, self._actions)}

    def reset(self, key: jax.Array) -> tuple[State, Arrays]:
        """Make a world."""
        timestep = strong(self._env.reset(key))
        return timestep, self._show(timestep)

    def step(self, state: State, action: Arrays, key: jax.Array) -> tuple[State, Arrays]:
        """Act. The world keeps a random key of its own."""
        # `step` of the package would begin a new episode by itself.
        timestep = strong(self._env._step(state, action["action"]))
        terminal = timestep.step_type == TERMINAL
        reward = timestep.reward.astype(jnp.float32)
        return timestep, {
            **self._show(timestep),
            "reward": reward,
            "is_last": timestep.step_type > 0,
            "is_terminal": terminal,
            "log/success": (terminal & (reward > 0)).astype(jnp.float32),
        }

    def draw(self, state: State) -> Any:
        """Draw the whole grid."""
        return jax.jit(self._views.rgb)(state.state)

    def _show(self, timestep: Any) -> Arrays:
        if "image" in self._obs_space:
            return {"image": to_picture(timestep.observation, self._size)}
        space = self._obs_space["vector"]
        classes = timestep.observation.astype(jnp.int32) - LOWEST
        return {"vector": classes.reshape(space.shape)}
