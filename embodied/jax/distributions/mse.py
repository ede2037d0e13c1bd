"""Squared error, the output of reconstruction heads."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from embodied.jax.distributions.distribution import Distribution, float32


class MSE(Distribution):
    """Squared error against a transformed target, without the factor of one half.

    The default is the reconstruction loss of the current public code (spec row 1.11). The
    variant of the paper's experiments ignores squared errors below a tolerance and predicts in
    the space of the data.
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


def check_shape(output: Distribution, target: Array) -> None:
    """Refuse targets that would be broadcast.

    Raises:
      ValueError: The shapes differ.
    """
    if target.shape != output.shape:
        raise ValueError(
            f"Got a target of shape {target.shape} for a prediction of shape {output.shape}; "
            f"the two must be the same."
        )
