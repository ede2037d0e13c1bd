"""Which arrays of a foreign environment are pictures: height, width and channels.

The rules are on the page docs/environments.md.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from embodied.envs.errors import UnsupportedSpace

#: Bounds at least this large say "unbounded" (MuJoCo's largest number is 1e10).
HUGE = 1e9
#: Height and width from which an array is taken for a picture whose type does not say so.
SIDE = 32


@dataclasses.dataclass(frozen=True)
class PictureShape:
    """How an array becomes a picture.

    Attributes:
      shape: Height, width and channels.
      axes: Order of the array's axes before they are joined to that shape.
      note: What the user should know of it, the end of a sentence; '' if it is no surprise.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    note: str = ""


def picture_shape(dtype: Any, shape: tuple[int, ...], low: Any, high: Any) -> PictureShape | None:
    """Find out whether an array is observed as a picture; None if it is not.

    These are: bytes with three dimensions and more than half of their range, or two and all of it;
    floats with three dimensions and bounds; wider integers with bounds, more values than a byte and
    a height and width of at least 32. A stack of pictures, with the frames first or last, is one
    picture with more channels.

    Args:
      dtype: Type of the array.
      shape: Its shape.
      low: Smallest value, a scalar or an array, or None if there is none.
      high: Largest value, inclusive.

    Raises:
      UnsupportedSpace: Bytes have more dimensions than a picture and are no stack of them.
    """
    dtype = np.dtype(dtype)
    count = len(shape)
    if count not in (2, 3, 4) and not (count > 4 and dtype == np.uint8):
        return None
    if dtype == np.uint8:
        low, high = 0 if low is None else low, 255 if high is None else high
        whole = bool(np.all(np.asarray(low) == 0) and np.all(np.asarray(high) == 255))
        found = whole if count == 2 else bool(np.max(high) >= 128)
    elif not _bounded(low, high):
        return None
    elif dtype.kind == "f":
        found = count == 3 or (count == 4 and _stack_axes(shape, SIDE) is not None)
    else:
        wide = dtype.kind in "iu" and float(np.max(high)) - float(np.min(low)) > 255
        deep = count == 3 or (count == 2 and dtype == np.uint16)
        found = wide and deep and min(shape[:2]) >= SIDE
    if not found:
        return None
    if count == 2:
        return PictureShape((*shape, 1), (0, 1))
    return PictureShape(shape, (0, 1, 2)) if count == 3 else _stack(shape)


def looks_like_picture(dtype: Any, shape: tuple[int, ...]) -> bool:
    """Whether numbers that are no picture have the shape of one, which may be a mistake."""
    return np.dtype(dtype).kind in "iuf" and len(shape) in (2, 3, 4) and min(shape[:2]) >= SIDE


def _stack(shape: tuple[int, ...]) -> PictureShape:
    """Join the frames of a stack of pictures to channels."""
    axes = _stack_axes(shape) if len(shape) == 4 else None
    if axes is None:
        raise UnsupportedSpace(
            f"Got pictures of shape {shape}, expected height, width, channels, or a stack of such "
            "pictures with the frames first or last; move the axes in the environment."
        )
    height, width, *rest = (shape[axis] for axis in axes)
    joined = height, width, rest[0] * rest[1]
    note = f"is a stack of pictures of shape {shape}, seen as one of shape {joined}"
    return PictureShape(joined, axes, note)


def _stack_axes(shape: tuple[int, ...], side: int = 1) -> tuple[int, ...] | None:
    """Order the axes of a stack: height and width, which are neighbours and longest, come first."""
    for axes in ((0, 1, 2, 3), (1, 2, 0, 3)):
        lengths = [shape[axis] for axis in axes]
        if min(lengths[:2]) >= max(side, *lengths[2:]):
            return axes
    return None


def _bounded(low: Any, high: Any) -> bool:
    """Whether there are bounds that mean something."""
    if low is None or high is None:
        return False
    bounds = np.concatenate([np.ravel(low), np.ravel(high)]).astype(np.float64)
    return bool((np.abs(bounds) < HUGE).all())
