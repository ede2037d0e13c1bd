"""Gymnax: classic control, bsuite and MinAtar in JAX (Lange, 2022)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from embodied.core.space import Space
from embodied.core.suggest import hint
from embodied.envs.errors import UnknownTask, UnsupportedSpace
from embodied.envs.pure.trees import strong
from embodied.jax.pure_env import Arrays, PureEnv, State


class Gymnax(PureEnv):
    """One environment of the package, such as `CartPole-v1`, with its own time limit.

    Observations are `vector`, flattened to two dimensions, without bounds, as many do not keep to
    those that they declare; a choice is a class.
    """

    def __init__(self, task: str) -> None:
        """Find the environment.

        Args:
          task: Id of the package.

        Raises:
          UnknownTask: The package knows no such environment.
          UnsupportedSpace: Observations or actions are more than one array.
        """
        gymnax = importlib.import_module("gymnax")
        if task not in gymnax.registered_envs:
            raise UnknownTask(
                f"gymnax knows no environment {task!r}.{hint(task, gymnax.registered_envs)}"
            )
        self._env, self._params = gymnax.make(task)
        self._act_space = _act_space(self._env.action_space(self._params), task)
        self._obs_space = _obs_space(self._env.observation_space(self._params), task)

    @property
    def obs_space(self) -> Mapping[str, Space]:
        """One array."""
        return {"vector": self._obs_space}

    @property
    def act_space(self) -> Mapping[str, Space]:
        """One choice, or numbers within bounds."""
        return {"action": self._act_space}

    def reset(self, key: jax.Array) -> tuple[State, Arrays]:
        """Start an episode."""
        obs, state = self._env.reset_env(key, self._params)
        return strong(state), self._show(obs)

    def step(self, state: State, action: Arrays, key: jax.Array) -> tuple[State, Arrays]:
        """Act."""
        # `step` of the package would begin a new episode by itself.
        found = self._env.step_env(key, state, action["action"], self._params)
        obs, state, reward, terminal, _ = found
        limit = self._env.is_truncated(state, self._params)
        return strong(state), {
            **self._show(obs),
            "reward": jnp.asarray(reward, jnp.float32).reshape(()),
            "is_last": jnp.asarray(terminal | limit, bool).reshape(()),
            "is_terminal": jnp.asarray(terminal, bool).reshape(()),
        }

    def _show(self, obs: Any) -> Arrays:
        return {"vector": jnp.asarray(obs).astype(self._obs_space.dtype).reshape(self._shape)}

    @property
    def _shape(self) -> tuple[int, ...]:
        return self._obs_space.shape


def _obs_space(space: Any, task: str) -> Space:
    if hasattr(space, "n"):
        return Space(np.int32, (), 0, int(space.n))
    if getattr(space, "shape", None) is None or not hasattr(space, "low"):
        raise UnsupportedSpace(
            f"Got {type(space).__name__} as observation of {task!r}, expected an array or a choice."
        )
    shape = tuple(space.shape)
    if len(shape) > 2:
        shape = (int(np.prod(shape[:-1])), shape[-1])
    return Space(np.float32, shape)


def _act_space(space: Any, task: str) -> Space:
    if hasattr(space, "n"):
        return Space(np.int32, (), 0, int(space.n))
    if getattr(space, "shape", None) is None or not hasattr(space, "low"):
        raise UnsupportedSpace(
            f"Got {type(space).__name__} as action of {task!r}, expected numbers or a choice."
        )
    return Space(np.float32, tuple(space.shape), np.asarray(space.low), np.asarray(space.high))
