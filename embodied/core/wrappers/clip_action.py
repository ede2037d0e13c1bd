"""Keep a continuous action in bounds."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs
from embodied.core.wrappers.base import Wrapper, find_float_space


class ClipAction(Wrapper):
    """Clips what the environment sees, while the replay stores what the policy sampled (row 7.4).

    Meant as the outermost wrapper. The action space stays as it is.
    """

    def __init__(self, env: Env, key: str, low: float = -1, high: float = 1) -> None:
        """Wrap an environment.

        Args:
            env: Environment to wrap.
            key: Name of the continuous action.
            low: Smallest value to pass on.
            high: Largest value to pass on.

        Raises:
            ValueError: If the environment has no such continuous action or the bounds are reversed.
        """
        super().__init__(env)
        find_float_space(env.act_space, key)
        if low > high:
            raise ValueError(f"Got bounds {low} and {high}, expected low <= high.")
        self._key = key
        self._low = low
        self._high = high

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Step with the clipped action."""
        # Several times as fast as `np.clip` for the few numbers of an action.
        clipped = np.minimum(np.maximum(action[self._key], self._low), self._high)
        return self.env.step({**action, self._key: clipped})
