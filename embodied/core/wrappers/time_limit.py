"""End episodes after a number of steps."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs, State
from embodied.core.wrappers.base import Wrapper


class TimeLimit(Wrapper):
    """Sets `is_last`, without `is_terminal`, on the `duration`-th step after a reset.

    After the end of an episode the next step starts a new one, whether or not it asks for a reset.
    """

    def __init__(self, env: Env, duration: int, reset: bool = True) -> None:
        """Wrap an environment.

        Args:
            env: Environment to wrap.
            duration: Steps per episode, not counting the reset; 0 for no limit.
            reset: Whether to reset the environment after the limit. If not, it goes on from where
                it is: the step that asks for the reset is an ordinary one (with the action it has,
                which is zero from the driver), returned with `is_first` and reward 0.

        Raises:
            ValueError: If the duration is negative.
        """
        super().__init__(env)
        if duration < 0:
            raise ValueError(
                f"Got duration {duration}, expected a number of steps or 0 for no limit."
            )
        self._duration = duration
        self._reset = reset
        self._count = 0
        self._done = True
        self._goes_on = False

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Step the environment, or start an episode."""
        if action["reset"] or self._done:
            obs = self._start(action)
        else:
            obs = self.env.step(action)
            # An environment may start an episode of its own accord, such as one that was restarted.
            self._count = 0 if obs["is_first"] else self._count + 1
        self._goes_on = False
        if self._duration and self._count >= self._duration and not obs["is_last"]:
            obs = {**obs, "is_last": np.bool_(True)}
            self._goes_on = not self._reset
        self._done = bool(obs["is_last"])
        return obs

    def save(self) -> State | None:
        """Save the environment and the position in the episode."""
        inner = super().save()
        if inner is None:
            return None
        return {
            "env": inner,
            "count": self._count,
            "done": self._done,
            "goes_on": self._goes_on,
        }

    def load(self, state: State) -> None:
        """Continue where `save` was called."""
        super().load(state["env"])
        self._count = state["count"]
        self._done = state["done"]
        self._goes_on = state["goes_on"]

    def _start(self, action: Mapping[str, Any]) -> Obs:
        self._count = 0
        if not self._goes_on:
            return self.env.step({**action, "reset": np.bool_(True)})
        obs = self.env.step({**action, "reset": np.bool_(False)})
        return {**obs, "is_first": np.bool_(True), "reward": np.float32(0)}
