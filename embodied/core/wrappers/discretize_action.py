"""Turn a continuous action into a discrete one."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs
from embodied.core.space import Space
from embodied.core.wrappers.base import Wrapper, find_float_space


class DiscretizeAction(Wrapper):
    """Replaces each component of a continuous action by a choice among evenly spaced values.

    The values span the component's bounds, both included, or [-1, 1] where a bound is not finite.
    """

    def __init__(self, env: Env, key: str, bins: int = 5) -> None:
        """Wrap an environment.

        Args:
            env: Environment to wrap.
            key: Name of the continuous action.
            bins: Number of values per component, at least 2.

        Raises:
            ValueError: If there is no such continuous action or too few bins.
        """
        super().__init__(env)
        space = find_float_space(env.act_space, key)
        if bins < 2:
            raise ValueError(f"Got {bins} bins, expected at least 2.")
        self._key = key
        self._space = Space(np.int32, space.shape, 0, bins)
        finite = np.isfinite(space.low) & np.isfinite(space.high)
        low = np.where(finite, space.low, -1).astype(np.float64)
        high = np.where(finite, space.high, 1).astype(np.float64)
        # Shape (*action, bins), so that an index picks along the last axis.
        self._values = np.linspace(low, high, bins, axis=-1).astype(space.dtype)

    @property
    def act_space(self) -> dict[str, Space]:
        """Spaces of the action, with int32 bin indices for the key."""
        return {**self.env.act_space, self._key: self._space}

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Step with the values of the chosen bins."""
        index = np.asarray(action[self._key])[..., None]
        value = np.take_along_axis(self._values, index, -1)[..., 0]
        return self.env.step({**action, self._key: value})
