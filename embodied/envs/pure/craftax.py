"""Craftax: survival with achievements in JAX (Matthews et al., 2024)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from embodied.core.space import Space
from embodied.envs.pure.trees import strong, to_picture
from embodied.jax.pure_env import Arrays, PureEnv, State

NEVER = 2**31 - 1
#: Pixels per block of the pictures that `draw` returns.
BLOCK_PIXELS = 16


class Craftax(PureEnv):
    """Craftax or its classic version, which is Crafter, as numbers or pictures.

    Observation: `vector` for the symbolic versions, else `image`.
    """

    def __init__(self, task: str, size: tuple[int, int] = (64, 64), length: int = 10000) -> None:
        """Find the version.

        Args:
          task: `Craftax-Symbolic-v1`, `Craftax-Pixels-v1` or one of `Craftax-Classic-`.
          size: Height and width that pictures are scaled to.
          length: Steps until the time limit, which is not terminal.
        """
        package = importlib.import_module("craftax.craftax_env")
        self._env = package.make_craftax_env_from_name(task, auto_reset=False)
        self._params = self._env.default_params.replace(max_timesteps=length)
        self._endless = self._params.replace(max_timesteps=NEVER)
        self._size = (int(size[0]), int(size[1]))
        self._folder = "craftax_classic" if "Classic" in task else "craftax"
        self._pictures = "Pixels" in task
        self._actions = int(self._env.action_space(self._params).n)

    @property
    def obs_space(self) -> Mapping[str, Space]:
        """What is seen."""
        if self._pictures:
            return {"image": Space(np.uint8, (*self._size, 3))}
        return {"vector": Space(np.float32, self._env.observation_space(self._params).shape)}

    @property
    def act_space(self) -> Mapping[str, Space]:
        """One of the actions of the package."""
        return {"action": Space(np.int32, (), 0, self._actions)}

    def reset(self, key: jax.Array) -> tuple[State, Arrays]:
        """Make a world."""
        obs, state = self._env.reset_env(key, self._params)
        return strong(state), self._show(obs)

    def step(self, state: State, action: Arrays, key: jax.Array) -> tuple[State, Arrays]:
        """Act."""
        found = self._env.step_env(key, state, action["action"], self._params)
        obs, state, reward, last, _ = found
        return strong(state), {
            **self._show(obs),
            "reward": jnp.asarray(reward, jnp.float32),
            "is_last": jnp.asarray(last, bool),
            "is_terminal": jnp.asarray(self._env.is_terminal(state, self._endless), bool),
        }

    def draw(self, state: State) -> Any:
        """Draw what is in view."""
        renderer = importlib.import_module(f"craftax.{self._folder}.renderer")
        if hasattr(renderer, "make_craftax_pixel_renderer"):
            pixels = renderer.make_craftax_pixel_renderer(BLOCK_PIXELS)(state)
        else:
            pixels = renderer.render_craftax_pixels(state, BLOCK_PIXELS)
        return np.clip(np.asarray(pixels), 0, 255).astype(np.uint8)

    def _show(self, obs: Any) -> Arrays:
        if self._pictures:
            return {"image": to_picture(obs, self._size)}
        return {"vector": obs.astype(jnp.float32)}
