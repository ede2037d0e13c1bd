"""The normal distribution, the output of continuous actors."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from embodied.jax.distributions.distribution import Distribution, Noise, float32

_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


class Normal(Distribution):
    """Independent normal distributions, neither clipped nor squashed (spec row 3.13)."""

    def __init__(
        self,
        mean: Any,
        stddev: Any = 1.0,
        minstd: float | None = None,
        maxstd: float | None = None,
    ) -> None:
        """Make the distribution.

        Args:
          mean: Mean of each element.
          stddev: Standard deviation of each element, positive.
          minstd: Smallest possible standard deviation, where known; gives `minent`.
          maxstd: Largest possible standard deviation, where known; gives `maxent`.
        """
        self.mean = float32(mean)
        self.stddev = jnp.broadcast_to(float32(stddev), self.mean.shape)
        self.minent = _entropy(math.log(minstd)) if minstd else None
        self.maxent = _entropy(math.log(maxstd)) if maxstd else None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the mean."""
        return self.mean.shape

    def pred(self) -> Array:
        """Return the mean."""
        return self.mean

    def noise(self, seed: Array, shape: tuple[int, ...] = ()) -> Noise:
        """Draw standard normal numbers."""
        return jax.random.normal(seed, (*shape, *self.shape), jnp.float32)

    def sample_from_noise(self, noise: Noise) -> Array:
        """Scale and shift standard normal numbers, differentiably."""
        return self.mean + self.stddev * noise

    def logp(self, event: Any) -> Array:
        """Return the log density of `event`."""
        standard = (float32(event) - self.mean) / self.stddev
        return -0.5 * jnp.square(standard) - jnp.log(self.stddev) - _HALF_LOG_TAU

    def entropy(self) -> Array:
        """Return the differential entropy, ``0.5 * log(2 * pi * e * stddev**2)``."""
        return _entropy(jnp.log(self.stddev))

    def kl(self, other: Distribution) -> Array:
        """Return the divergence to another normal distribution."""
        self._same_kind(other)
        assert isinstance(other, Normal)
        ratio = self.stddev / other.stddev
        shift = (self.mean - other.mean) / other.stddev
        return 0.5 * (jnp.square(ratio) + jnp.square(shift) - 1.0) - jnp.log(ratio)


def _entropy(log_stddev: Any) -> Any:
    return log_stddev + 0.5 + _HALF_LOG_TAU
