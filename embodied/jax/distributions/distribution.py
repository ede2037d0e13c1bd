"""The interface that all distributions share, and several of them taken as one."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

Noise = Any


class Distribution:
    """A distribution, or a mere prediction, over elements of shape `shape`.

    Parameters are cast to float32 at construction, and everything that is computed from them is
    float32, whatever the compute dtype of the network. Batch and element dimensions are not told
    apart here: every method works element by element, and `Independent` sums over trailing element
    dimensions.

    Randomness is drawn in two steps, so that a loop can draw all its random numbers at once:
    ``sample(seed)`` equals ``sample_from_noise(noise(seed))``.

    Attributes:
      minent: Smallest entropy that this kind of distribution can reach, or None where unknown; a
        number or an array over trailing element dimensions, like `maxent`.
      maxent: Largest entropy that this kind of distribution can reach, or None where unknown.
    """

    minent: Any = None
    maxent: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of `logp`, `loss` and `entropy`."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape})"

    def pred(self) -> Array:
        """Return the mode."""
        raise NotImplementedError(self._lacks("a prediction"))

    def loss(self, target: Any) -> Array:
        """Return the loss of predicting `target`, through which no gradient flows."""
        return -self.logp(lax.stop_gradient(jnp.asarray(target)))

    def noise(self, seed: Array, shape: tuple[int, ...] = ()) -> Noise:
        """Draw what `sample_from_noise` needs.

        Args:
          seed: Random key, uint32[2].
          shape: Additional leading dimensions, one independent sample per element.
        """
        raise NotImplementedError(self._lacks("a sampler"))

    def sample_from_noise(self, noise: Noise) -> Array:
        """Turn random numbers as made by `noise` into a sample."""
        raise NotImplementedError(self._lacks("a sampler"))

    def sample(self, seed: Array, shape: tuple[int, ...] = ()) -> Array:
        """Draw a sample with additional leading dimensions `shape`; seed is a uint32[2] key."""
        return self.sample_from_noise(self.noise(seed, shape))

    def logp(self, event: Any) -> Array:
        """Return the log probability, or log density, of `event`."""
        raise NotImplementedError(self._lacks("a log probability"))

    def prob(self, event: Any) -> Array:
        """Return the probability, or density, of `event`."""
        return jnp.exp(self.logp(event))

    def entropy(self) -> Array:
        """Return the entropy in nats."""
        raise NotImplementedError(self._lacks("an entropy"))

    def kl(self, other: "Distribution") -> Array:
        """Return the Kullback-Leibler divergence from `self` to `other` in nats."""
        raise NotImplementedError(self._lacks("a divergence"))

    def _lacks(self, what: str) -> str:
        return f"{type(self).__name__} has no such thing as {what}; choose another output."

    def _same_kind(self, other: "Distribution") -> None:
        if type(other) is not type(self):
            raise TypeError(
                f"Got {type(other).__name__} to compare with {type(self).__name__}; divergences "
                f"are defined between outputs of the same kind only."
            )


class Independent(Distribution):
    """One joint distribution out of independent ones along trailing dimensions.

    Such are the latents of a state or the dimensions of an action. Losses, log probabilities,
    entropies and divergences are sums over these dimensions; predictions and samples keep them.
    """

    def __init__(self, distribution: Distribution, dims: int) -> None:
        """Join the elements of `distribution`.

        Args:
          distribution: Element-wise distribution of shape ``[..., *element]``.
          dims: Number of trailing dimensions to sum over.

        Raises:
          ValueError: The distribution has fewer dimensions than that.
        """
        if not 0 <= dims <= len(distribution.shape):
            raise ValueError(
                f"Got {dims} dimensions to sum over for a distribution of shape "
                f"{distribution.shape}; expected 0 to {len(distribution.shape)}."
            )
        self.distribution = distribution
        self._dims = dims
        self.minent = self._bound(distribution.minent)
        self.maxent = self._bound(distribution.maxent)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of what is left after the sum."""
        return self.distribution.shape[: len(self.distribution.shape) - self._dims]

    def pred(self) -> Array:
        """Return the mode, one per element."""
        return self.distribution.pred()

    def loss(self, target: Any) -> Array:
        """Return the sum of the losses."""
        return self._sum(self.distribution.loss(target))

    def noise(self, seed: Array, shape: tuple[int, ...] = ()) -> Noise:
        """Draw the noise of the elements."""
        return self.distribution.noise(seed, shape)

    def sample_from_noise(self, noise: Noise) -> Array:
        """Turn noise into a sample of every element."""
        return self.distribution.sample_from_noise(noise)

    def logp(self, event: Any) -> Array:
        """Return the joint log probability of `event`."""
        return self._sum(self.distribution.logp(event))

    def entropy(self) -> Array:
        """Return the joint entropy."""
        return self._sum(self.distribution.entropy())

    def kl(self, other: Distribution) -> Array:
        """Return the divergence to another joint distribution."""
        self._same_kind(other)
        assert isinstance(other, Independent)
        return self._sum(self.distribution.kl(other.distribution))

    def _bound(self, bound: Any) -> Any:
        if bound is None or not self._dims:
            return bound
        element = self.distribution.shape[-self._dims :]
        return self._sum(jnp.broadcast_to(bound, element))

    def _sum(self, values: Array) -> Array:
        return jnp.sum(values, tuple(range(-self._dims, 0)))


def float32(value: Any) -> Array:
    """Return `value` as a float32 array."""
    return jnp.asarray(value).astype(jnp.float32)


def uniform(seed: Array, shape: tuple[int, ...]) -> Array:
    """Draw float32 numbers from [0, 1)."""
    return jax.random.uniform(seed, shape, jnp.float32)


def check_shape(distribution: Distribution, target: Array) -> None:
    """Refuse targets that would be broadcast.

    Raises:
      ValueError: The shapes differ.
    """
    if target.shape != distribution.shape:
        raise ValueError(
            f"Got a target of shape {target.shape} for a prediction of shape {distribution.shape}; "
            f"the two must be the same."
        )
