"""Running offset and scale of a stream of values, such as returns."""

import jax.numpy as jnp
from jax import Array, lax

from embodied.jax import nj
from embodied.jax.percentiles import percentiles

IMPLS = ("none", "perc", "meanstd")
Stats = tuple[Array | float, Array | float]


class Normalize(nj.Module):
    """Exponential moving statistics of values (paper eq. 7, spec rows 3.8 and 3.9).

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
