"""Wrappers that add observations or change an image."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs, State
from embodied.core.space import Space
from embodied.core.wrappers.base import Wrapper, find_space


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


class BackwardReturn(Wrapper):
    """Adds the observation `bwreturn`, the discounted sum of past rewards of the episode.

    With discount g = 1 - 1 / horizon, `bwreturn_t = reward_t + g * bwreturn_{t-1}`, where the
    previous value is 0 at the first step of an episode. Float32, shape ().
    """

    KEY = "bwreturn"

    def __init__(self, env: Env, horizon: float) -> None:
        """Wrap an environment.

        Args:
            env: Environment to wrap.
            horizon: Steps over which to look back, at least 1.

        Raises:
            ValueError: If the horizon is less than 1 or the key is taken.
        """
        super().__init__(env)
        if horizon < 1:
            raise ValueError(f"Got horizon {horizon}, expected at least 1 step.")
        if self.KEY in env.obs_space:
            raise ValueError(f"Got an environment with key {self.KEY!r}, expected it to be free.")
        self._discount = 1 - 1 / horizon
        self._value = 0.0

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of the observation and of the backward return."""
        return {**self.env.obs_space, self.KEY: Space(np.float32)}

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Step and add the backward return."""
        obs = self.env.step(action)
        previous = 0.0 if obs["is_first"] else self._value
        self._value = float(obs["reward"]) + self._discount * previous
        return {**obs, self.KEY: np.float32(self._value)}

    def save(self) -> State | None:
        """Save the environment and the return so far."""
        inner = super().save()
        return None if inner is None else {"env": inner, "value": self._value}

    def load(self, state: State) -> None:
        """Continue where `save` was called."""
        super().load(state["env"])
        self._value = state["value"]


class ResizeImage(Wrapper):
    """Resizes an image with any number of channels, uint8 or float, by bilinear interpolation.

    In a `BatchedEnv`, the images of all instances.
    """

    def __init__(self, env: Env, key: str, size: tuple[int, int]) -> None:
        """Wrap an environment.

        Args:
            env: Environment to wrap.
            key: Name of an observation of shape (height, width, channels).
            size: Height and width to return.

        Raises:
            ImportError: If pillow is not installed.
            ValueError: If there is no such image.
        """
        super().__init__(env)
        space = find_space(env.obs_space, key)
        floating = not space.discrete and space.dtype.itemsize >= 4
        if len(space.shape) != 3 or not (space.dtype == np.uint8 or floating):
            raise ValueError(f"Got key {key!r} with {space}, expected height, width and channels.")
        _import_pillow()
        self._key = key
        self._size = (int(size[0]), int(size[1]))
        self._same = self._size == space.shape[:2]
        self._space = space if self._same else _resized(space, self._size)

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of the observation, with the new height and width."""
        return {**self.env.obs_space, self._key: self._space}

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Step and resize the image."""
        obs = self.env.step(action)
        if self._same or self._key not in obs:
            return obs
        return {**obs, self._key: self._resize(np.asarray(obs[self._key]))}

    def _resize(self, image: np.ndarray) -> np.ndarray:
        if image.ndim == 4:
            return np.stack([self._resize(single) for single in image])
        pillow = _import_pillow()
        # By channel, as pillow knows certain numbers of channels only. It wants the width first.
        pixels = image if image.dtype == np.uint8 else image.astype(np.float32)
        channels = [
            pillow.fromarray(np.ascontiguousarray(pixels[:, :, channel])).resize(
                self._size[::-1], pillow.Resampling.BILINEAR
            )
            for channel in range(image.shape[2])
        ]
        return np.stack([np.asarray(channel) for channel in channels], -1).astype(image.dtype)


def _resized(space: Space, size: tuple[int, int]) -> Space:
    """Space of another resolution, with the widest bounds of any pixel."""
    shape = (*size, space.shape[2])
    if np.isfinite(space.low).all() and np.isfinite(space.high).all():
        return Space(space.dtype, shape, space.low.min(), space.high.max())
    return Space(space.dtype, shape)


def _import_pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        message = (
            "Resizing images needs pillow: pip install pillow, or this package's extra 'images'."
        )
        raise ImportError(message) from error
    return Image
