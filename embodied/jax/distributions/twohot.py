"""A distribution over sorted bins whose targets are split between two neighbours."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from embodied.jax.distributions.distribution import Distribution, check_shape, float32


class TwoHot(Distribution):
    """Softmax over bins, trained by two-hot cross-entropy, that predicts its expectation.

    Paper equations 10 to 12. Interpolation is linear in the space
    of the bins: with symexp-spaced bins and no squashing that is the space of the targets.
    The normalizer is computed once per object and shared by all losses and the prediction.
    """

    def __init__(
        self,
        logits: Any,
        bins: Any,
        squash: Callable[[Array], Array] | None = None,
        unsquash: Callable[[Array], Array] | None = None,
    ) -> None:
        """Make the distribution.

        Args:
          logits: Unnormalized log probabilities, [..., C].
          bins: Ascending positions of the bins, constants [C].
          squash: Applied to targets before they are placed among the bins.
          unsquash: Applied to the expectation to make the prediction.

        Raises:
          ValueError: The number of logits is not that of the bins.
        """
        self.logits = float32(logits)
        self.bins = np.asarray(bins, np.float32)
        if self.bins.ndim != 1 or self.logits.shape[-1] != self.bins.shape[0]:
            raise ValueError(
                f"Got logits of shape {self.logits.shape} for bins of shape {self.bins.shape}; "
                f"the last dimension of the logits must be the number of bins."
            )
        self._squash = squash
        self._unsquash = unsquash
        self._normalizer = jax.nn.logsumexp(self.logits, -1)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the targets."""
        return self.logits.shape[:-1]

    def pred(self) -> Array:
        """Return the expectation, exactly zero for uniform logits over symmetric bins."""
        mean = self._mean()
        return self._unsquash(mean) if self._unsquash else mean

    def logp(self, event: Any) -> Array:
        """Return the negative cross-entropy between the two-hot `event` and the prediction.

        Raises:
          ValueError: The event has another shape.
        """
        event = float32(event)
        check_shape(self, event)
        event = lax.stop_gradient(self._squash(event) if self._squash else event)
        return _mix(self.logits, *two_hot(event, jnp.asarray(self.bins))) - self._normalizer

    def _mean(self) -> Array:
        """Return the expectation, summed over pairs of bins of opposite sign.

        The members of a pair are subtracted before they are multiplied, so that equal
        probabilities over bins of opposite sign cancel to the last bit. A sum of two products
        would not: compilers may round one of them and fuse the other with the addition.
        """
        count = self.bins.shape[0]
        half = count // 2
        mass = jnp.exp(self.logits - lax.stop_gradient(jnp.max(self.logits, -1, keepdims=True)))
        upper, upper_bins = mass[..., count - half :], self.bins[count - half :]
        lower, lower_bins = mass[..., :half][..., ::-1], self.bins[:half][::-1]
        total = jnp.dot(upper - lower, upper_bins, precision=lax.Precision.HIGHEST)
        if np.any(upper_bins + lower_bins):
            rest = upper_bins + lower_bins
            total = total + jnp.dot(lower, rest, precision=lax.Precision.HIGHEST)
        if count % 2:
            total = total + mass[..., half] * self.bins[half]
        return total / jnp.sum(mass, -1)


def two_hot(value: Array, bins: Array) -> tuple[Array, Array, Array, Array]:
    """Split `value` between its two neighbours among the ascending `bins`.

    A value outside of the range puts its whole weight on the bin at the edge.

    Returns:
      Indices of the bin below and above, and the weights of the two, which sum to one.
    """
    count = bins.shape[0]
    above = jnp.searchsorted(bins, value, side="right").astype(jnp.int32)
    below = jnp.clip(above - 1, 0, count - 1)
    above = jnp.clip(above, 0, count - 1)
    outside = below == above
    to_below = jnp.where(outside, 1.0, jnp.abs(bins[below] - value))
    to_above = jnp.where(outside, 1.0, jnp.abs(bins[above] - value))
    total = to_below + to_above
    return below, above, to_above / total, to_below / total


@jax.custom_vjp
def _mix(logits: Array, below: Array, above: Array, lower: Array, upper: Array) -> Array:
    """Return the mixture ``lower * logits[below] + upper * logits[above]`` along the last axis."""

    def take(index: Array) -> Array:
        return jnp.take_along_axis(logits, index[..., None], -1)[..., 0]

    return lower * take(below) + upper * take(above)


def _mix_forward(
    logits: Array, below: Array, above: Array, lower: Array, upper: Array
) -> tuple[Array, tuple[Any, ...]]:
    residuals = (logits.shape[-1], below, above, lower, upper)
    return _mix(logits, below, above, lower, upper), residuals


def _mix_backward(residuals: tuple[Any, ...], grad: Array) -> tuple[Any, ...]:
    """Compare with the class index instead of scattering, which fuses with other gradients."""
    count, below, above, lower, upper = residuals
    classes = jnp.arange(count, dtype=jnp.int32)

    def place(index: Array, weight: Array) -> Array:
        return jnp.where(classes == index[..., None], (grad * weight)[..., None], 0.0)

    return place(below, lower) + place(above, upper), None, None, None, None


_mix.defvjp(_mix_forward, _mix_backward)
