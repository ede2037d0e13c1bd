"""Change the resolution of an image observation."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs
from embodied.core.space import Space
from embodied.core.wrappers.base import Wrapper, find_space


class ResizeImage(Wrapper):
    """Resizes an image with any number of channels, uint8 or float, by bilinear interpolation."""

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
