"""The Bernoulli distribution, the output of the continuation head."""

import math
from typing import Any

import jax
from jax import Array

from embodied.jax.distributions.distribution import Distribution, Noise, float32, uniform


class Binary(Distribution):
    """Bernoulli distribution over one logit; targets may be soft labels (spec row 1.10)."""

    minent = 0.0
    maxent = math.log(2)

    def __init__(self, logit: Any) -> None:
        """Make the distribution from the log odds of True."""
        self.logit = float32(logit)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the logit."""
        return self.logit.shape

    def pred(self) -> Array:
        """Return whether True is the likelier outcome."""
        return self.logit > 0

    def noise(self, seed: Array, shape: tuple[int, ...] = ()) -> Noise:
        """Draw numbers from [0, 1)."""
        return uniform(seed, (*shape, *self.shape))

    def sample_from_noise(self, noise: Noise) -> Array:
        """Turn uniform numbers into booleans."""
        return noise < jax.nn.sigmoid(self.logit)

    def logp(self, event: Any) -> Array:
        """Return the log likelihood of `event`, where a value in between mixes both outcomes."""
        event = float32(event)
        yes, no = jax.nn.log_sigmoid(self.logit), jax.nn.log_sigmoid(-self.logit)
        return event * yes + (1.0 - event) * no

    def entropy(self) -> Array:
        """Return the entropy in nats."""
        return -self.logp(jax.nn.sigmoid(self.logit))

    def kl(self, other: Distribution) -> Array:
        """Return the divergence to another Bernoulli distribution."""
        self._same_kind(other)
        prob = jax.nn.sigmoid(self.logit)
        return self.logp(prob) - other.logp(prob)
