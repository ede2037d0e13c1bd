"""Give a continuous action the range -1 to 1."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs
from embodied.core.space import Space
from embodied.core.wrappers.base import Wrapper, find_float_space


class NormalizeAction(Wrapper):
    """Maps [-1, 1] linearly to [low, high] in every component whose two bounds are finite.

    Other components pass through. Values outside of [-1, 1] are extrapolated, see `ClipAction`.
    """

    def __init__(self, env: Env, key: str) -> None:
        """Wrap an environment.

        Args:
            env: Environment to wrap.
            key: Name of the continuous action.

        Raises:
            ValueError: If the environment has no such continuous action.
        """
        super().__init__(env)
        space = find_float_space(env.act_space, key)
        self._key = key
        self._dtype = space.dtype
        self._finite = np.isfinite(space.low) & np.isfinite(space.high)
        self._low = np.where(self._finite, space.low, -1).astype(np.float64)
        self._high = np.where(self._finite, space.high, 1).astype(np.float64)
        self._space = space
        # Such actions have the right range already.
        self._changes = bool(((self._low != -1) | (self._high != 1)).any())
        if self._finite.any():
            low = np.where(self._finite, -1, space.low)
            high = np.where(self._finite, 1, space.high)
            self._space = Space(space.dtype, space.shape, low, high)

    @property
    def act_space(self) -> dict[str, Space]:
        """Spaces of the action, with bounds -1 and 1 where the environment has finite ones."""
        return {**self.env.act_space, self._key: self._space}

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Step with the action in the environment's own range."""
        if not self._changes:
            value = np.asarray(action[self._key], self._dtype)
            return self.env.step({**action, self._key: value})
        value = np.asarray(action[self._key], np.float64)
        # Written so that -1 and 1 give exactly the bounds.
        scaled = 0.5 * ((1 - value) * self._low + (1 + value) * self._high)
        original = np.where(self._finite, scaled, value).astype(self._dtype)
        return self.env.step({**action, self._key: original})
