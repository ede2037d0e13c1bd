"""Check actions and observations against the declared spaces."""

from collections.abc import Mapping
from typing import Any

from embodied.core.check import SpacesCheck
from embodied.core.interfaces import Env, Obs
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
