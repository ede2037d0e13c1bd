"""A replay inside of a compiled program: a ring of steps per world, and who may be drawn from it.

N worlds step together. Position n is that of the newest row; its N entries are all there, but w,
the world whose transition pays for an update, hides those that the host replay would add later.
Position p of a world lies in slot ``p % L``. The functions are those of `Replay` as arithmetic:

- An item is a window of W steps. At (n, w) there are ``N (n - W + 1) + w + 1`` items, of which the
  newest C may be drawn; the one of age a is found from a alone.
- Fresh windows that do not overlap, from positions 1, W + 1, 2 W + 1, ..., come before drawn ones.
  Their queue is a counter of how many were taken.

N, L (positions that are kept), W and C are static.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from embodied.core.space import Space

Arrays = dict[str, jax.Array]
Number = int | jax.Array


class Shape(NamedTuple):
    """Static sizes of a ring.

    Attributes:
      worlds: Number of worlds N.
      window: Steps per window W.
      capacity: Most items C that may be drawn.
      rows: Positions that are kept per world, L.
      online: Whether fresh windows come first.
    """

    worlds: int
    window: int
    capacity: int
    rows: int
    online: bool = True

    @classmethod
    def fitting(
        cls, worlds: int, window: int, capacity: int, steps: float, online: bool = True
    ) -> "Shape":
        """Size a ring so that all items are there, and no larger than a budget of steps fills."""
        filled = min(-(-capacity // worlds), -(-int(steps) // worlds))
        return cls(worlds, window, capacity, filled + window, online)


def stored_dtype(space: Space) -> np.dtype:
    """Type in which values are kept: integers of at most 256 values as bytes."""
    small = space.discrete and space.dtype.kind in "iu" and np.min(space.low, initial=0) >= 0
    return np.dtype(np.uint8) if small and np.max(space.high, initial=0) <= 256 else space.dtype


def step_bytes(spaces: Mapping[str, Space]) -> int:
    """Bytes of one step."""
    return sum(int(np.prod(x.shape)) * stored_dtype(x).itemsize for x in spaces.values())


def empty(shape: Shape, spaces: Mapping[str, Space]) -> Arrays:
    """Make a ring [N, L, ...] of zeros for each space."""
    size = shape.worlds, shape.rows
    return {k: jnp.zeros((*size, *x.shape), stored_dtype(x)) for k, x in spaces.items()}


def write(shape: Shape, ring: Arrays, n: Number, row: Mapping[str, jax.Array]) -> Arrays:
    """Store the values [N, ...] of position n."""
    slot = n % shape.rows
    return {
        key: jax.lax.dynamic_update_slice_in_dim(
            values, row[key].astype(values.dtype)[:, None], slot, 1
        )
        for key, values in ring.items()
    }


def items(shape: Shape, n: Number, w: Number) -> jax.Array:
    """Number of items that may be drawn, int32 []."""
    N, W = shape.worlds, shape.window
    # Beyond the capacity, more positions make no difference, but would overflow.
    starts = jnp.minimum(n - W + 1, -(-shape.capacity // N) + 1)
    count = jnp.where(starts >= 0, N * starts + w + 1, 0)
    return jnp.minimum(shape.capacity, count).astype(jnp.int32)


def pushed(shape: Shape, n: Number, w: Number) -> jax.Array:
    """Number of fresh windows so far, int32 []."""
    N, W = shape.worlds, shape.window
    if not shape.online:
        return jnp.zeros((), jnp.int32)
    whole = N * (n // W)
    count = jnp.where(n % W > 0, whole, whole - N + w + 1)
    return jnp.where(n < W, 0, count).astype(jnp.int32)


def locate(shape: Shape, age: jax.Array, n: Number, w: Number) -> tuple[jax.Array, jax.Array]:
    """World and first position of items by their age, 0 for the newest."""
    N, W = shape.worlds, shape.window
    x = age + N - 1 - w
    return N - 1 - x % N, n - W + 1 - x // N


def draw(
    shape: Shape, key: jax.Array, n: Number, w: Number, popped: Number, batch: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Choose the windows of a batch: fresh ones first, then items alike, with replacement.

    Args:
      shape: Sizes of the ring.
      key: Random key.
      n: Newest position.
      w: World whose transition pays.
      popped: Fresh windows that were taken or overwritten so far.
      batch: Number of rows B.

    Returns:
      World [B] and first position [B], int32, and the new value of `popped`.
    """
    N, W = shape.worlds, shape.window
    ages = jax.random.randint(key, (batch,), 0, jnp.maximum(items(shape, n, w), 1))
    env, start = locate(shape, ages, n, w)
    gone = N * (-(-jnp.maximum(0, n - shape.rows) // W))
    popped = jnp.maximum(popped, gone) if shape.online else jnp.asarray(popped)
    fresh = jnp.clip(pushed(shape, n, w) - popped, 0, batch)
    row = jnp.arange(batch)
    number = popped + row
    env = jnp.where(row < fresh, number % N, env)
    start = jnp.where(row < fresh, 1 + number // N * W, start)
    return env.astype(jnp.int32), start.astype(jnp.int32), (popped + fresh).astype(jnp.int32)


def window(
    shape: Shape,
    ring: Mapping[str, jax.Array],
    spaces: Mapping[str, Space],
    env: jax.Array,
    start: jax.Array,
) -> Arrays:
    """Copy windows out of the ring, with edges marked as `annotate` does on the host.

    Args:
      shape: Sizes of the ring.
      ring: The stored steps.
      spaces: What the values are, of all keys in the ring.
      env: Worlds [B].
      start: First positions [B].

    Returns:
      Values [B, W, ...] by key, and ``stepid`` int32 [B, W, 2], world and position of each step,
      and ``consec`` int32 [B, W], zeros.
    """
    position = start[:, None] + jnp.arange(shape.window)
    slot = position % shape.rows
    data = {
        key: values[env[:, None], slot].astype(spaces[key].dtype) for key, values in ring.items()
    }
    if "is_first" in data and "is_last" in data:
        before_first = jnp.pad(data["is_first"][:, 1:], ((0, 0), (0, 1)))
        data["is_last"] = data["is_last"] | before_first
    if "is_first" in data:
        data["is_first"] = data["is_first"].at[:, 0].set(True)
    world = jnp.broadcast_to(env[:, None], position.shape)
    data["stepid"] = jnp.stack([world, position], -1).astype(jnp.int32)
    data["consec"] = jnp.zeros(position.shape, jnp.int32)
    return data


def write_back(
    shape: Shape, ring: Arrays, stepid: jax.Array, values: Mapping[str, jax.Array]
) -> Arrays:
    """Overwrite values of steps; where rows overlap the last one wins, as on the host.

    Args:
      shape: Sizes of the ring.
      ring: The stored steps.
      stepid: World and position of consecutive steps per row, int32 [B, T, 2]; world -1 for rows
        to leave alone.
      values: New values [B, T, ...] by key.
    """
    env, position = stepid[..., 0], stepid[..., 1]
    first, last = position[:, :1], position[:, -1:]
    # A scatter has no order. covered[i, t, j]: a later row j writes step t of row i as well.
    same = env[:, :1, None] == env[:, 0]
    inside = (position[..., None] >= first.T) & (position[..., None] <= last.T)
    row = jnp.arange(len(env))
    covered = (same & inside & (row > row[:, None, None])).any(-1)
    slot = jnp.where(covered | (env < 0), shape.rows, position % shape.rows)
    changed = dict(ring)
    for key, value in values.items():
        # Cast before, as otherwise the whole ring is converted.
        new = value.astype(ring[key].dtype)
        changed[key] = ring[key].at[env, slot].set(new, mode="drop")
    return changed


def present(shape: Shape, ring: Mapping[str, Any], length: int) -> dict[str, np.ndarray]:
    """Rows of the last positions before `length`, oldest first, [N, rows, ...], on the host."""
    positions = np.arange(max(0, length - shape.rows), length)
    return {key: np.asarray(x)[:, positions % shape.rows] for key, x in ring.items()}


def restored(
    shape: Shape, spaces: Mapping[str, Space], rows: Mapping[str, np.ndarray], length: int
) -> dict[str, np.ndarray]:
    """Lay out what `present` has returned, perhaps for another capacity, as a ring on the host."""
    count = min(shape.rows, *(x.shape[1] for x in rows.values()))
    slots = np.arange(length - count, length) % shape.rows
    result = {}
    for key, space in spaces.items():
        dtype = stored_dtype(space)
        ring = np.zeros((shape.worlds, shape.rows, *space.shape), dtype)
        ring[:, slots] = rows[key][:, rows[key].shape[1] - count :]
        result[key] = ring
    return result
