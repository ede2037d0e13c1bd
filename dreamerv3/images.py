"""Which images the convolutional networks take, and the numbers that they see of them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from embodied.core.space import Space
from embodied.envs.errors import UnsupportedSpace

SMALLEST_MAP, LARGEST_MAP = 3, 16

Group = dict[str, Space]


def group_images(obs_space: Mapping[str, Space], stages: int) -> list[tuple[str, Group]]:
    """Sort images by their size; those of one size share a network.

    Args:
      obs_space: Spaces of all observations; those with three dimensions are images.
      stages: How often the networks halve the resolution.

    Returns:
      For each size a prefix for the names of layers, which is empty for the first one, and the
      spaces in the order of the observations. Groups are in the order of their first key by name.

    Raises:
      UnsupportedSpace: A size cannot be halved `stages` times down to a map between 3x3 and 16x16,
        or the values have no bounds; the message says what would work.
    """
    images = {key: space for key, space in obs_space.items() if len(space.shape) == 3}
    for key, space in images.items():
        _check_size(key, space, stages)
        _check_range(key, space)
    sizes = list(dict.fromkeys(images[key].shape[:2] for key in sorted(images)))
    return [
        ("" if index == 0 else f"images{index}_", _of_size(images, size))
        for index, size in enumerate(sizes)
    ]


def unit_range(space: Space, image: jax.Array) -> jax.Array:
    """Scale an image to float32 between 0 and 1: bytes by 255, floats by their bounds."""
    if space.discrete:
        return image.astype(jnp.float32) / 255
    image = image.astype(jnp.float32)
    if (space.low == 0).all() and (space.high == 1).all():
        return image
    low, high = np.float32(space.low), np.float32(space.high)
    return (image - low) / np.where(high > low, high - low, 1)


def nearest_size(length: int, stages: int) -> int:
    """Return the height or width closest to `length` that `stages` halvings can use."""
    size: int = 2**stages
    cells = min(max(round(length / size), SMALLEST_MAP), LARGEST_MAP)
    return cells * size


def _of_size(images: Group, size: tuple[int, ...]) -> Group:
    return {key: space for key, space in images.items() if space.shape[:2] == size}


def _check_size(key: str, space: Space, stages: int) -> None:
    height, width, channels = space.shape
    if height < SMALLEST_MAP * 2**stages <= min(width, channels):
        raise UnsupportedSpace(
            f"Got image '{key}' of shape {space.shape}, expected height, width, channels, but it "
            "looks as if the channels come first: move them to the end in the environment."
        )
    nearest = nearest_size(height, stages), nearest_size(width, stages)
    if nearest != (height, width):
        raise UnsupportedSpace(
            f"Got image '{key}' of size {height}x{width} (shape {space.shape} is height, width, "
            f"channels), which {stages} halvings do not bring to a map between "
            f"{SMALLEST_MAP}x{SMALLEST_MAP} and {LARGEST_MAP}x{LARGEST_MAP}; the nearest size that "
            f"works is {nearest[0]}x{nearest[1]}. Set the size of the suite or of an import "
            f"path, such as --env.custom.size {nearest[0]} {nearest[1]}, or flatten what is not a "
            "picture."
        )


def _check_range(key: str, space: Space) -> None:
    bounds = [*np.ravel(space.low), *np.ravel(space.high)] if not space.discrete else []
    if not all(math.isfinite(bound) for bound in bounds):
        raise UnsupportedSpace(
            f"Got the float image '{key}' without finite bounds, expected low and high in its "
            f"space, such as 0 and 1; declare them, or flatten what is not a picture."
        )
