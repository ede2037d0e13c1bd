"""Smooth absolute error."""

from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from embodied.jax.distributions.distribution import Distribution, float32
from embodied.jax.distributions.mse import check_shape


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
