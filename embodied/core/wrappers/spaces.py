"""Wrappers that check or convert values by their spaces."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs
from embodied.core.space import Space, SpacesCheck
from embodied.core.wrappers.base import Wrapper


class CheckSpaces(Wrapper):
    """Raises `SpaceError` at the first value that is not in its space.

    The driver makes the same check of observations. This wrapper is for environments used without
    a driver, for checks between wrappers, and inside of `RestartOnException`, where it turns an
    invalid observation into a restart.
    """

    def __init__(self, env: Env) -> None:
        """Wrap an environment."""
        super().__init__(env)
        self._check_obs = SpacesCheck(env.obs_space, "observation")
        self._check_act = SpacesCheck(env.act_space, "action")

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Step, checking action and observation.

        Raises:
            SpaceError: Naming the key, what was expected and what was got.
        """
        self._check_act(action)
        obs = self.env.step(action)
        self._check_obs(obs)
        return obs


class UnifyDtypes(Wrapper):
    """Turns floats into float32 and integers into int32; bool, uint8 and bfloat16 stay.

    Observations are converted on the way out, actions on the way in, to what the environment takes.
    """

    def __init__(self, env: Env) -> None:
        """Wrap an environment."""
        super().__init__(env)
        self._obs_space = {key: _unified(space) for key, space in env.obs_space.items()}
        self._act_space = {key: _unified(space) for key, space in env.act_space.items()}
        self._obs_dtypes = {
            key: (space.dtype, self._obs_space[key].dtype)
            for key, space in env.obs_space.items()
            if space.dtype != self._obs_space[key].dtype
        }
        self._act_dtypes = {
            key: space.dtype
            for key, space in env.act_space.items()
            if space.dtype != self._act_space[key].dtype
        }

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of the observation in unified dtypes."""
        return self._obs_space

    @property
    def act_space(self) -> dict[str, Space]:
        """Spaces of the action in unified dtypes."""
        return self._act_space

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Step, converting action and observation.

        Raises:
            ValueError: If an observed integer is too large for int32.
        """
        action = {
            key: np.asarray(value, self._act_dtypes[key]) if key in self._act_dtypes else value
            for key, value in action.items()
        }
        obs = self.env.step(action)
        converted = {
            key: _convert(key, obs[key], old, new)
            for key, (old, new) in self._obs_dtypes.items()
            if key in obs
        }
        return {**obs, **converted}


def _unified(space: Space) -> Space:
    dtype = space.dtype
    if dtype.kind == "f":
        dtype = np.dtype(np.float32)
    elif dtype.kind in "iu" and dtype != np.uint8:
        dtype = np.dtype(np.int32)
    return space if dtype == space.dtype else space.astype(dtype)


def _convert(key: str, value: Any, old: np.dtype, new: np.dtype) -> Any:
    value = np.asarray(value)
    # What is not of the declared dtype is left for the check at the door to complain about.
    if value.dtype != old:
        return value
    with np.errstate(over="ignore"):
        converted = value.astype(new)
    if new.kind == "i" and (converted != value).any():
        largest = np.iinfo(new).max
        raise ValueError(
            f"Got {value.max()} in observation {key!r}, expected integers up to {largest}: return "
            "smaller numbers from the environment."
        )
    return converted
