"""Exact percentiles without sorting."""

import math
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

_SIGN = np.uint32(1 << 31)


def percentiles(x: Array, qs: Sequence[float]) -> Array:
    """Return percentiles over all elements with linear interpolation, as `jnp.percentile`.

    Order statistics are found bit by bit by counting, which for the returns of one update is
    several times faster than sorting them.

    Args:
      x: Values of any shape and at least one element.
      qs: Percentages from 0 to 100.

    Returns:
      float32 array with one percentile per entry of `qs`; all NaN if any value is NaN.
    """
    flat = jnp.asarray(x).astype(jnp.float32).ravel()
    positions = [q / 100 * (flat.size - 1) for q in qs]
    lower = [min(math.floor(p), flat.size - 1) for p in positions]
    upper = [min(rank + 1, flat.size - 1) for rank in lower]
    below, above = jnp.split(order_statistics(flat, lower + upper), 2)
    share = jnp.float32([p - rank for p, rank in zip(positions, lower, strict=True)])
    mixed = below * (1 - share) + above * share
    return jnp.where(jnp.isnan(flat).any(), jnp.nan, mixed)


def order_statistics(x: Array, ranks: Sequence[int]) -> Array:
    """Return the values that would be at positions `ranks` if the float32 vector `x` was sorted.

    The result is built from its highest bit on: a bit is set if at most `rank` elements are
    smaller than the prefix with the bit set.
    """
    keys = _to_ordered(x)
    wanted = jnp.asarray(ranks, jnp.int32)

    def step(i: Array, prefix: Array) -> Array:
        candidate = prefix | (jnp.uint32(1) << (31 - i).astype(jnp.uint32))
        smaller = jnp.sum(keys < candidate[:, None], -1, dtype=jnp.int32)
        return jnp.where(smaller <= wanted, candidate, prefix)

    found = lax.fori_loop(0, 32, step, jnp.zeros(len(ranks), jnp.uint32))
    return _from_ordered(found)


def _to_ordered(x: Array) -> Array:
    """Map floats to unsigned integers that compare like them."""
    bits = lax.bitcast_convert_type(x, jnp.uint32)
    return jnp.where(bits >= _SIGN, ~bits, bits | _SIGN)


def _from_ordered(keys: Array) -> Array:
    """Invert `_to_ordered`."""
    bits = jnp.where(keys >= _SIGN, keys ^ _SIGN, ~keys)
    return lax.bitcast_convert_type(bits, jnp.float32)
