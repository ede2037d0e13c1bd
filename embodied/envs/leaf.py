"""Translation of one array of a foreign environment into this project's spaces and back."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from embodied.core.space import Space, SpaceError
from embodied.envs.errors import UnsupportedSpace
from embodied.envs.picture_shape import (
    HUGE,
    PictureShape,
    looks_like_picture,
    picture_shape,
)

#: Elements of integer arrays with more values than this are observed as numbers, not as classes.
ARRAY_CLASSES = 256
#: The same for all elements of an array together, each of which is an input of a network.
ALL_CLASSES = 2**17
#: The same for what an environment declares as choices, by default.
MAX_CLASSES = 4096

#: Observation keys that every environment has.
FLAGS = ("reward", "is_first", "is_last", "is_terminal")


@dataclasses.dataclass(frozen=True)
class Leaf:
    """One array: the space that the agent sees and how to reach the environment's own values.

    Attributes:
      space: Space on our side; integers start at 0, floats are float32.
      dtype: Type of the array on the environment's side.
      shape: Shape of the array on the environment's side.
      offset: What is added to our integers to get the environment's.
      low: Smallest value on the environment's side, or None.
      high: Largest value on the environment's side, inclusive, or None.
      axes: Order in which the axes of an observation are taken, or None for their own.
      note: What is surprising about an observation's space, the end of a sentence, or ''.
    """

    space: Space
    dtype: np.dtype
    shape: tuple[int, ...]
    offset: np.ndarray | None = None
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    axes: tuple[int, ...] | None = None
    note: str = ""

    def encode(self, value: Any, key: str = "", batch: tuple[int, ...] = ()) -> np.ndarray:
        """Convert an observation of the environment into ours.

        Args:
          value: What the environment returned.
          key: Name of the observation, for the message.
          batch: Dimensions in front of those of the array, where there are several instances.

        Raises:
          SpaceError: It is no array of numbers of the declared shape and kind of type; floats and
            integers of another width are converted, as long as they fit.
        """
        found = np.asarray(value)
        shape = (*batch, *self.shape)
        fits = found.dtype == self.dtype or np.can_cast(found.dtype, self.dtype, "same_kind")
        if found.shape != shape or not fits:
            what = f"{found.dtype} array of shape {found.shape}, {_brief(value)}"
            message = f"expected a {self.dtype} array of shape {shape}, got a {what}"
            raise SpaceError(f"Invalid observation: key {key!r}: {message}.")
        if self.offset is not None:
            found = found - self.offset
        result = _converted(found, self.space.dtype)
        if result.dtype.kind in "iu" and found.dtype != result.dtype and (result != found).any():
            message = f"expected values that fit into {self.dtype}, got {_brief(value)}"
            raise SpaceError(f"Invalid observation: key {key!r}: {message}.")
        if self.axes is not None:
            axes = (len(batch) + axis for axis in self.axes)
            result = result.transpose((*range(len(batch)), *axes))
        shape = (*batch, *self.space.shape)
        return result if result.shape == shape else result.reshape(shape)

    def decode(self, value: Any) -> np.ndarray:
        """Convert an action of ours into the environment's range and type."""
        if self.offset is not None:
            value = np.asarray(value, np.int64) + self.offset
        value = np.asarray(value, self.dtype)
        if self.low is not None and self.high is not None:
            # Scaling to the bounds in float32 can overshoot them by a rounding error.
            value = np.minimum(np.maximum(value, self.low), self.high)
        return np.asarray(value)


def _converted(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Copy to another type; floats that are too large for it become infinite."""
    if value.dtype == dtype:
        return value.copy()
    with np.errstate(over="ignore"):
        return value.astype(dtype)


def _brief(value: Any) -> str:
    """Write a value on one short line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def leaf_name(name: str, taken: Collection[str], prefix: str) -> str:
    """Make a key out of an environment's own name for an array.

    Slashes become `_`, as keys with `log/` are special, and keys that mean something else here get
    a prefix, so that an observation called `reward` becomes `obs_reward`.
    """
    key = name.replace("/", "_")
    return f"{prefix}_{key}" if key in taken else key


@contextlib.contextmanager
def named(name: str, prefix: str) -> Iterator[None]:
    """Put the name of an array in front of what is wrong with its space.

    Args:
      name: Name of the array.
      prefix: `obs` or `act`.

    Raises:
      UnsupportedSpace: As in the context.
    """
    try:
        yield
    except UnsupportedSpace as error:
        kind = "observation" if prefix == "obs" else "action"
        raise UnsupportedSpace(f"Invalid {kind} {name!r}: {error}") from error


def observation_leaf(
    dtype: Any, shape: tuple[int, ...], low: Any = None, high: Any = None, choices: int = 0
) -> Leaf:
    """Make the leaf of an observation.

    Pictures, see `picture_shape`, stay as they are if they are bytes and become float32 else.
    Integers with a small declared range become classes from 0, other integers become float32, and
    so does float64. What is no picture is flattened to at most two dimensions.

    Args:
      dtype: Type on the environment's side.
      shape: Shape of the array.
      low: Smallest value, a scalar or an array, or None if there is none.
      high: Largest value, inclusive.
      choices: For integers that the environment declares as choices, the number of values up to
        which they become classes; else 0.

    Raises:
      UnsupportedSpace: The values are not numbers, or bytes of a shape that no picture has.
    """
    dtype = _numeric(dtype)
    picture = picture_shape(dtype, shape, low, high)
    if picture is not None:
        return _picture(dtype, shape, low, high, picture)
    flat = shape if len(shape) <= 2 else (math.prod(shape[:-1]), shape[-1])
    if dtype.kind == "b":
        return Leaf(Space(bool, flat), dtype, shape)
    sizes = _sizes(dtype, shape, low, high) if np.issubdtype(dtype, np.integer) else None
    note = "" if sizes is None else _too_many(sizes, shape, choices)
    if sizes is not None and note is None:
        leaf = _classes(dtype, shape, low, sizes)
        space = Space(np.int32, flat, 0, leaf.space.high.reshape(flat))
        return dataclasses.replace(leaf, space=space)
    if not note and looks_like_picture(dtype, shape):
        note = (
            f"of shape {shape} is no picture but a vector of {math.prod(shape):,} numbers; if it "
            "should be one, give it the shape height, width, channels and finite bounds"
        )
    lower, upper = (_arranged(bound, None, flat) for bound in _bounds(shape, low, high))
    return Leaf(Space(np.float32, flat, lower, upper), dtype, shape, note=note or "")


def _picture(
    dtype: np.dtype, shape: tuple[int, ...], low: Any, high: Any, picture: PictureShape
) -> Leaf:
    """Make the leaf of a picture: bytes, or float32 within its bounds."""
    kind = np.uint8 if dtype == np.uint8 else np.float32
    lows, highs = (None, None) if dtype == np.uint8 else _bounds(shape, low, high)
    moved = (_arranged(bound, picture.axes, picture.shape) for bound in (lows, highs))
    axes = None if picture.axes == tuple(range(len(shape))) else picture.axes
    space = Space(kind, picture.shape, *moved)
    return Leaf(space, dtype, shape, axes=axes, note=picture.note)


def _too_many(sizes: np.ndarray, shape: tuple[int, ...], choices: int) -> str | None:
    """Say that integers have too many values for classes, '' if that is usual; None if not."""
    if np.max(sizes, initial=1) > (choices or ARRAY_CLASSES):
        if not choices:
            return ""
        return (
            f"has {np.max(sizes):,} classes, more than the {choices:,} of the option max_classes, "
            "and is seen as a number"
        )
    if not choices and np.sum(sizes) > ALL_CLASSES:
        return f"of shape {shape} has {np.sum(sizes):,} classes in all, and is seen as numbers"
    return None


def action_leaf(dtype: Any, shape: tuple[int, ...], low: Any = None, high: Any = None) -> Leaf:
    """Make the leaf of an action.

    Args:
      dtype: Type on the environment's side.
      shape: Shape of the array.
      low: Smallest value, a scalar or an array, or None if there is none.
      high: Largest value, inclusive.

    Raises:
      UnsupportedSpace: The values are not numbers, or are integers without bounds.
    """
    dtype = _numeric(dtype)
    if dtype.kind == "b":
        return Leaf(Space(np.int32, shape, 0, 2), dtype, shape)
    if np.issubdtype(dtype, np.integer):
        sizes = _sizes(dtype, shape, low, high)
        if sizes is None:
            raise UnsupportedSpace(
                f"Got an integer action of shape {shape} with bounds {low} and {high}, expected "
                "finite bounds; declare them or use a float action."
            )
        return _classes(dtype, shape, low, sizes)
    lower, upper = _bounds(shape, low, high)
    if lower is None or upper is None:
        return Leaf(Space(np.float32, shape, lower, upper), dtype, shape)
    space = Space(np.float32, shape, lower, upper)
    own = [np.broadcast_to(bound, shape).astype(dtype) for bound in (low, high)]
    return Leaf(space, dtype, shape, low=own[0], high=own[1])


def _numeric(dtype: Any) -> np.dtype:
    """Refuse types that are not booleans, integers or floats."""
    numeric: np.dtype = np.dtype(dtype)
    if numeric.kind not in "biuf":
        kind = {"U": "text", "S": "text", "O": "objects or text"}.get(numeric.kind, numeric)
        raise UnsupportedSpace(
            f"Got an array of {kind}, expected booleans, integers or floats; encode it as "
            "numbers in the environment."
        )
    return numeric


def _sizes(dtype: np.dtype, shape: tuple[int, ...], low: Any, high: Any) -> np.ndarray | None:
    """Count the values of each element of an integer array; None where the range is open."""
    if low is None or high is None:
        return None
    info = np.iinfo(dtype)
    lows, highs = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
    whole = (lows == info.min) | (highs == info.max)
    if info.bits > 16 and np.any(whole):
        return None
    return np.asarray(highs.astype(np.int64) - lows.astype(np.int64) + 1)


def _classes(dtype: np.dtype, shape: tuple[int, ...], low: Any, sizes: np.ndarray) -> Leaf:
    """Make the leaf of integers that count from `low`."""
    offset = np.broadcast_to(low, shape).astype(np.int64)
    uniform = sizes.size == 0 or np.all(sizes == sizes.flat[0])
    high = int(sizes.flat[0]) if uniform and sizes.size else sizes
    return Leaf(Space(np.int32, shape, 0, high), dtype, shape, offset if np.any(offset) else None)


def _arranged(bound: Any, axes: tuple[int, ...] | None, shape: tuple[int, ...]) -> Any:
    """Bring bounds that differ between elements into another order of axes and shape."""
    return bound if np.ndim(bound) == 0 else np.transpose(bound, axes).reshape(shape)


def _bounds(shape: tuple[int, ...], low: Any, high: Any) -> tuple[Any, Any]:
    """Turn float bounds into those of a space: scalars where they agree, infinite where huge."""
    result: list[Any] = []
    for bound, infinite in ((low, -np.inf), (high, np.inf)):
        if bound is None:
            result.append(None)
            continue
        array = np.broadcast_to(np.asarray(bound, np.float64), shape)
        array = np.where(np.abs(array) >= HUGE, infinite, array)
        if array.size and np.all(array == array.flat[0]):
            value = float(array.flat[0])
            result.append(None if np.isinf(value) else value)
        else:
            result.append(array.astype(np.float32))
    return result[0], result[1]
