"""The interface that all output distributions share."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

Noise = Any


class Distribution:
    """A distribution, or a mere prediction, over elements of shape `shape`.

    Parameters are cast to float32 at construction, and everything that is computed from them is
    float32 (spec row 1.12). Batch and element dimensions are not told apart here: every method
    works element by element, and `Independent` sums over trailing element dimensions.

    Randomness is drawn in two steps, so that a loop can draw all its random numbers at once:
    ``sample(seed)`` equals ``sample_from_noise(noise(seed))``.

    Attributes:
      minent: Smallest entropy that this kind of output can reach, or None where unknown; a
        number or an array over trailing element dimensions, like `maxent`.
      maxent: Largest entropy that this kind of output can reach, or None where unknown.
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


def float32(value: Any) -> Array:
    """Return `value` as a float32 array."""
    return jnp.asarray(value).astype(jnp.float32)


def uniform(seed: Array, shape: tuple[int, ...]) -> Array:
    """Draw float32 numbers from [0, 1)."""
    return jax.random.uniform(seed, shape, jnp.float32)
