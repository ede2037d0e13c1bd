"""Aggregation of an output over its trailing element dimensions."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array

from embodied.jax.distributions.distribution import Distribution, Noise


class Independent(Distribution):
    """Reduces loss, log probability, entropy and divergence of an output over trailing dimensions.

    With the default sum this makes one joint distribution out of independent ones, such as the
    latents of a state or the dimensions of an action. Predictions and samples keep their shape.
    """

    def __init__(
        self, output: Distribution, dims: int, reduce: Callable[..., Array] = jnp.sum
    ) -> None:
        """Wrap `output`.

        Args:
          output: Element-wise distribution of shape ``[..., *element]``.
          dims: Number of trailing dimensions to reduce.
          reduce: Reduction that takes ``axis``, for example ``jnp.sum`` or ``jnp.mean``.

        Raises:
          ValueError: The output has fewer dimensions than that.
        """
        if not 0 <= dims <= len(output.shape):
            raise ValueError(
                f"Got {dims} dimensions to reduce for an output of shape {output.shape}; "
                f"expected 0 to {len(output.shape)}."
            )
        self.output = output
        self._dims = dims
        self._axes = tuple(range(-dims, 0))
        self._reduce = reduce
        self.minent = self._bound(output.minent)
        self.maxent = self._bound(output.maxent)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of what is left after the reduction."""
        return self.output.shape[: len(self.output.shape) - self._dims]

    def pred(self) -> Array:
        """Return the mode, not reduced."""
        return self.output.pred()

    def loss(self, target: Any) -> Array:
        """Return the reduced loss."""
        return self._reduce(self.output.loss(target), axis=self._axes)

    def noise(self, seed: Array, shape: tuple[int, ...] = ()) -> Noise:
        """Draw the noise of the wrapped output."""
        return self.output.noise(seed, shape)

    def sample_from_noise(self, noise: Noise) -> Array:
        """Turn noise into a sample, not reduced."""
        return self.output.sample_from_noise(noise)

    def logp(self, event: Any) -> Array:
        """Return the reduced log probability of `event`."""
        return self._reduce(self.output.logp(event), axis=self._axes)

    def entropy(self) -> Array:
        """Return the reduced entropy."""
        return self._reduce(self.output.entropy(), axis=self._axes)

    def kl(self, other: Distribution) -> Array:
        """Return the reduced divergence to another aggregated output."""
        self._same_kind(other)
        assert isinstance(other, Independent)
        return self._reduce(self.output.kl(other.output), axis=self._axes)

    def _bound(self, bound: Any) -> Any:
        if bound is None or not self._dims:
            return bound
        element = self.output.shape[-self._dims :]
        return self._reduce(jnp.broadcast_to(bound, element), axis=self._axes)
