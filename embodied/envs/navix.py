"""NAVIX, the grid worlds of MiniGrid computed with JAX (Pignatelli et al., 2024)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs
from embodied.core.space import Space
from embodied.envs.errors import UnknownOption, UnknownTask
from embodied.envs.leaf import observation_leaf
from embodied.envs.pictures import make_resize

#: Observation functions of the package by our name for them.
VIEWS = ("symbolic", "symbolic_first_person", "categorical", "rgb", "rgb_first_person")
#: Range of the symbols. The package declares others than it observes: walls are -1 in categorical
#: views, and the largest number is that of the player, 10.
LOWEST, HIGHEST = -1, 15


class Navix(Env):
    """One grid world, such as `Empty-5x5`. Reaching the goal pays and is terminal.

    Observation: `vector`, the grid as classes, or `image` for the views that are pictures. This is
    the one suite that needs JAX where it is stepped; workers compute on the CPU.
    """

    def __init__(
        self,
        task: str,
        view: str = "symbolic",
        size: tuple[int, int] = (64, 64),
        length: int = 100,
        seed: int = 0,
    ) -> None:
        """Compile the world.

        Args:
          task: Id without `Navix-` and the version, or the whole id.
          view: What is observed, one of `VIEWS`.
          size: Height and width that pictures are scaled to.
          length: Steps until the time limit, which is not terminal.
          seed: Seed of the worlds.

        Raises:
          UnknownTask: The package knows no such world.
          UnknownOption: There is no such view.
        """
        if view not in VIEWS:
            raise UnknownOption(f"Got view {view!r}, expected one of {', '.join(VIEWS)}.")
        self._jax = importlib.import_module("jax")
        navix = importlib.import_module("navix")
        name = task if task.startswith("Navix-") else f"Navix-{task}-v0"
        function = getattr(importlib.import_module("navix.observations"), view)
        try:
            env = navix.make(name, max_steps=length, observation_fn=function)
        except NotImplementedError as error:
            raise UnknownTask(f"navix knows no world {name!r}: {error}") from error
        self._size = (int(size[0]), int(size[1]))
        self._resize = make_resize("pillow") if view.startswith("rgb") else None
        # Symbols are no colors, although some of them come as bytes.
        symbols = np.int32, tuple(env.observation_space.shape), LOWEST, HIGHEST
        self._leaf = None if self._resize else observation_leaf(*symbols)
        self._actions = int(np.asarray(env.action_space.maximum)) + 1
        self._reset = self._jax.jit(env.reset)
        self._step = self._jax.jit(env.step)
        self._random = self._jax.random.PRNGKey(seed % 2**31)
        self._timestep: Any = None
        self._done = True

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of what `step` returns."""
        flags = {key: Space(bool) for key in ("is_first", "is_last", "is_terminal")}
        if self._leaf is None:
            view = {"image": Space(np.uint8, (*self._size, 3))}
        else:
            view = {"vector": self._leaf.space}
        return {**view, "reward": Space(np.float32), **flags}

    @property
    def act_space(self) -> dict[str, Space]:
        """Spaces of what `step` takes."""
        return {"action": Space(np.int32, (), 0, self._actions), "reset": Space(bool)}

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Act in the world, or make a new one."""
        first = bool(action["reset"]) or self._done
        if first:
            self._random, key = self._jax.random.split(self._random)
            self._timestep = self._reset(key)
        else:
            self._timestep = self._step(self._timestep, np.int32(action["action"]))
        # 0 is a transition, 1 the time limit, 2 a terminal step.
        kind = 0 if first else int(self._timestep.step_type)
        self._done = kind > 0
        return {
            **self._view(np.asarray(self._timestep.observation)),
            "reward": np.float32(0 if first else self._timestep.reward),
            "is_first": np.bool_(first),
            "is_last": np.bool_(self._done),
            "is_terminal": np.bool_(kind == 2),
        }

    def _view(self, found: np.ndarray) -> Obs:
        if self._leaf is not None:
            return {"vector": self._leaf.encode(found.astype(np.int32), "vector")}
        assert self._resize is not None
        return {"image": self._resize(found, self._size)}
