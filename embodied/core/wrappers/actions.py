"""Wrappers that change what the environment is told to do."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs
from embodied.core.space import Space
from embodied.core.wrappers.base import Wrapper, find_float_space


class ActionRepeat(Wrapper):
    """Applies each action several times, sums the rewards and returns the last observation.

    Stops early when the episode ends. Resets are not repeated.
    """

    def __init__(self, env: Env, repeat: int) -> None:
        """Wrap an environment.

        Args:
            env: Environment to wrap.
            repeat: How often to apply each action, at least 1.

        Raises:
            ValueError: If `repeat` is less than 1.
        """
        super().__init__(env)
        if repeat < 1:
            raise ValueError(f"Got action repeat {repeat}, expected at least 1.")
        self._repeat = repeat

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Apply the action `repeat` times, or reset once."""
        obs = self.env.step(action)
        if action["reset"]:
            return obs
        reward = np.float32(obs["reward"])
        for _ in range(self._repeat - 1):
            if obs["is_last"] or obs["is_terminal"] or obs["is_first"]:
                break
            obs = self.env.step(action)
            reward += np.float32(obs["reward"])
        # An environment may start an episode of its own accord, such as one that was restarted.
        return obs if obs["is_first"] else {**obs, "reward": reward}


class ClipAction(Wrapper):
    """Clips what the environment sees, while the replay stores what the policy sampled.

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
