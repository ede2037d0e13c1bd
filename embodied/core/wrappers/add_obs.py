"""Add a constant observation."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs
from embodied.core.space import Space
from embodied.core.wrappers.base import Wrapper


class AddObs(Wrapper):
    """Adds an observation that never changes, such as the number of the task."""

    def __init__(self, env: Env, key: str, value: Any, space: Space) -> None:
        """Wrap an environment.

        Args:
            env: Environment to wrap.
            key: Name of the new observation.
            value: Its value, converted to the dtype of the space.
            space: Its space.

        Raises:
            ValueError: If the key is taken or the value is not in the space.
        """
        super().__init__(env)
        if key in env.obs_space:
            raise ValueError(f"Got key {key!r}, expected one that the environment does not have.")
        self._key = key
        self._value = np.array(value, space.dtype)
        self._value.setflags(write=False)
        self._space = space
        reason = space.explain(self._value)
        if reason is not None:
            raise ValueError(f"Got an invalid value for observation {key!r}: {reason}.")

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of the observation and of the constant."""
        return {**self.env.obs_space, self._key: self._space}

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Step and add the constant."""
        return {**self.env.step(action), self._key: self._value}
