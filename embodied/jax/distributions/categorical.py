"""The categorical distribution over class indices."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.jax.distributions.distribution import Distribution, Noise, float32, uniform
from embodied.jax.distributions.sampling import inverse_cdf


class Categorical(Distribution):
    """Categorical distribution over int32 class indices (spec rows 1.8 and 3.14).

    With `unimix` the probabilities are mixed with the uniform distribution, which keeps
    divergences finite and exploration alive.

    Attributes:
      probs: Class probabilities after mixing, [..., C].
      log_probs: Their logarithms, [..., C].
    """

    minent = 0.0

    def __init__(self, logits: Any, unimix: float = 0.0, classes: Any = None, low: Any = 0) -> None:
        """Make the distribution.

        Args:
          logits: Unnormalized log probabilities, [..., C].
          unimix: Share of the uniform distribution, from 0 to 1.
          classes: Number of valid classes per element, an integer array over trailing element
            dimensions; classes beyond have probability zero. By default all C are valid.
          low: The event that class 0 stands for, an integer or an array like `classes`.
        """
        logits = float32(logits)
        size = logits.shape[-1]
        valid = None
        if classes is not None and np.any(np.asarray(classes) != size):
            valid = np.arange(size) < np.asarray(classes)[..., None]
            logits = jnp.where(valid, logits, -jnp.inf)
        if unimix:
            share = 1 / size if valid is None else valid / valid.sum(-1, keepdims=True)
            self.probs = (1 - unimix) * jax.nn.softmax(logits) + unimix * share
            self.log_probs = _log(self.probs) if valid is not None else jnp.log(self.probs)
        else:
            self.log_probs = jax.nn.log_softmax(logits)
            self.probs = jnp.exp(self.log_probs)
        self._low = np.asarray(low, np.int32)
        self.maxent: Any = math.log(size) if valid is None else np.log(valid.sum(-1))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the events."""
        return self.probs.shape[:-1]

    def pred(self) -> Array:
        """Return the likeliest class, the first one among equals."""
        return jnp.argmax(self.probs, -1).astype(jnp.int32) + self._low

    def noise(self, seed: Array, shape: tuple[int, ...] = ()) -> Noise:
        """Draw one number from [0, 1) per variable."""
        return uniform(seed, (*shape, *self.shape))

    def sample_from_noise(self, noise: Noise) -> Array:
        """Turn uniform numbers into class indices."""
        return inverse_cdf(self.probs, noise) + self._low

    def sample_from_uniform(self, uniform: Array) -> Array:
        """Turn uniform numbers, one in [0, 1) per variable, into class indices."""
        return self.sample_from_noise(uniform)

    def logp(self, event: Any) -> Array:
        """Return the log probability of events; an index of C or more gives NaN."""
        event = jnp.asarray(event).astype(jnp.int32) - self._low
        log_probs = jnp.broadcast_to(self.log_probs, (*event.shape, self.log_probs.shape[-1]))
        return jnp.take_along_axis(log_probs, event[..., None], -1)[..., 0]

    def entropy(self) -> Array:
        """Return the entropy in nats."""
        return -jnp.sum(self.probs * self._finite(), -1)

    def kl(self, other: Distribution) -> Array:
        """Return the divergence to another categorical distribution with the same classes."""
        self._same_kind(other)
        assert isinstance(other, Categorical)
        log_ratio = jnp.where(self.log_probs == -jnp.inf, 0.0, self._finite() - other.log_probs)
        return jnp.sum(self.probs * log_ratio, -1)

    def _finite(self) -> Array:
        """Log probabilities with zero in place of minus infinity, where 0 * log(0) is 0."""
        return jnp.where(self.log_probs == -jnp.inf, 0.0, self.log_probs)


def _log(probs: Array) -> Array:
    """Logarithm that is minus infinity at zero without an infinite gradient there."""
    return jnp.where(probs > 0, jnp.log(jnp.where(probs > 0, probs, 1.0)), -jnp.inf)
