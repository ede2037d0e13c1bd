"""Continuous distributions: the normal one, and predictions that are scored by a distance."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from embodied.jax.distributions.distribution import Distribution, Noise, check_shape, float32

_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


class MSE(Distribution):
    """Squared error against a transformed target, without the factor of one half.

    The default is the reconstruction loss of the current public code. The variant of the paper's
    experiments ignores squared errors below a tolerance and predicts in the space of the data.
    """

    def __init__(
        self,
        pred: Any,
        squash: Callable[[Array], Array] | None = None,
        tolerance: float = 0.0,
        pred_unsquash: Callable[[Array], Array] | None = None,
    ) -> None:
        """Predict the squashed target.

        Args:
          pred: Prediction, of the shape of the target.
          squash: Applied to the target before comparing, for example `symlog`.
          tolerance: Squared errors below it count as zero.
          pred_unsquash: Applied to what `pred` returns, for example `symexp`; by default
            predictions stay in the squashed space.
        """
        self.mean = float32(pred)
        self._squash = squash
        self._tolerance = tolerance
        self._unsquash = pred_unsquash

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the prediction."""
        return self.mean.shape

    def pred(self) -> Array:
        """Return the prediction."""
        return self._unsquash(self.mean) if self._unsquash else self.mean

    def loss(self, target: Any) -> Array:
        """Return the squared error of each element.

        Raises:
          ValueError: The target has another shape.
        """
        target = float32(target)
        check_shape(self, target)
        target = lax.stop_gradient(self._squash(target) if self._squash else target)
        distance = jnp.square(self.mean - target)
        if self._tolerance:
            distance = jnp.where(distance < self._tolerance, 0.0, distance)
        return distance


class Huber(Distribution):
    """Pseudo-Huber loss: quadratic below `eps`, linear with slope one above."""

    def __init__(self, pred: Any, eps: float = 1.0) -> None:
        """Predict the target; `pred` has its shape and `eps` is in its units."""
        self.mean = float32(pred)
        self._eps = eps

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the prediction."""
        return self.mean.shape

    def pred(self) -> Array:
        """Return the prediction."""
        return self.mean

    def loss(self, target: Any) -> Array:
        """Return the loss of each element.

        Raises:
          ValueError: The target has another shape.
        """
        target = lax.stop_gradient(float32(target))
        check_shape(self, target)
        return jnp.sqrt(jnp.square(self.mean - target) + self._eps**2) - self._eps


class Normal(Distribution):
    """Independent normal distributions, neither clipped nor squashed."""

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
        sample: Array = self.mean + self.stddev * noise
        return sample

    def logp(self, event: Any) -> Array:
        """Return the log density of `event`."""
        standard = (float32(event) - self.mean) / self.stddev
        logp: Array = -0.5 * jnp.square(standard) - jnp.log(self.stddev) - _HALF_LOG_TAU
        return logp

    def entropy(self) -> Array:
        """Return the differential entropy, ``0.5 * log(2 * pi * e * stddev**2)``."""
        entropy: Array = _entropy(jnp.log(self.stddev))
        return entropy

    def kl(self, other: Distribution) -> Array:
        """Return the divergence to another normal distribution."""
        self._same_kind(other)
        assert isinstance(other, Normal)
        ratio = self.stddev / other.stddev
        shift = (self.mean - other.mean) / other.stddev
        return 0.5 * (jnp.square(ratio) + jnp.square(shift) - 1.0) - jnp.log(ratio)


def _entropy(log_stddev: Any) -> Any:
    return log_stddev + 0.5 + _HALF_LOG_TAU
