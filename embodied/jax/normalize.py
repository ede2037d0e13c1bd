"""Running offset and scale of a stream of values, such as returns, and their percentiles."""

import math
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from embodied.jax import nj

IMPLS = ("none", "perc", "meanstd")
Stats = tuple[Array | float, Array | float]

_SIGN = np.uint32(1 << 31)


class Normalize(nj.Module):
    """Exponential moving statistics of values (paper Eq. 7).

    State, float32 scalars that start at zero: ``lo/value`` and ``hi/value`` for 'perc',
    ``mean/value`` and ``sqrs/value`` for 'meanstd', and ``corr/value`` with `debias`.

    Attributes:
      impl: 'perc' takes two percentiles over all elements, 'meanstd' mean and standard deviation,
        'none' leaves values alone.
      rate: Share of the new statistics in each update.
      limit: Smallest scale.
      perclo: Lower percentile, from 0 to 100.
      perchi: Upper percentile, from 0 to 100.
      debias: Correct for the start from zero.
    """

    impl: str
    rate: float = 0.01
    limit: float = 1e-8
    perclo: float = 5.0
    perchi: float = 95.0
    debias: bool = True

    def __init__(self) -> None:
        """Check the options.

        Raises:
          ValueError: The implementation does not exist.
        """
        if self.impl not in IMPLS:
            raise ValueError(
                f"Got impl='{self.impl}' for the normalizer '{self.path}', expected one of "
                f"{', '.join(IMPLS)}."
            )

    def __call__(self, x: Array, update: bool = True) -> Stats:
        """Return offset and scale, after taking `x` into account if `update` is set.

        Args:
          x: Values of any shape; no gradient flows through them.
          update: Whether to update the statistics, which only training does.
        """
        if update:
            self.update(x)
        return self.stats()

    def update(self, x: Array) -> None:
        """Mix the statistics of `x`, of any shape, into the running ones."""
        if self.impl == "none":
            return
        x = lax.stop_gradient(jnp.asarray(x).astype(jnp.float32))
        if self.impl == "perc":
            low, high = percentiles(x, (self.perclo, self.perchi))
            self._mix("lo", low)
            self._mix("hi", high)
        else:
            self._mix("mean", x.mean())
            self._mix("sqrs", jnp.square(x).mean())
        if self.debias:
            self._mix("corr", jnp.float32(1))

    def stats(self) -> Stats:
        """Return offset and scale; subtract the one and divide by the other."""
        if self.impl == "none":
            return 0.0, 1.0
        factor = 1 / jnp.maximum(self.rate, self._average("corr").read()) if self.debias else 1.0
        if self.impl == "perc":
            offset = self._average("lo").read() * factor
            scale = self._average("hi").read() * factor - offset
        else:
            offset = self._average("mean").read() * factor
            variance = self._average("sqrs").read() * factor - jnp.square(offset)
            scale = jnp.sqrt(jnp.maximum(variance, 0.0))
        return offset, jnp.maximum(self.limit, scale)

    def _average(self, name: str) -> nj.Variable:
        return self.sub(name, nj.Variable, jnp.zeros, (), jnp.float32)

    def _mix(self, name: str, value: Array) -> None:
        average = self._average(name)
        average.write((1 - self.rate) * average.read() + self.rate * value)


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
