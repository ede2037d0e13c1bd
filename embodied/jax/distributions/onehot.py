"""The categorical distribution over one-hot vectors with straight-through gradients."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from embodied.jax.distributions.categorical import Categorical
from embodied.jax.distributions.distribution import Distribution, Noise, float32


class OneHot(Distribution):
    """Categorical distribution over float32 one-hot vectors (spec row 1.8).

    Samples and predictions carry the gradient of the probabilities after mixing.
    """

    minent = 0.0

    def __init__(self, logits: Any, unimix: float = 0.0, classes: Any = None) -> None:
        """Make the distribution; the arguments are those of `Categorical`, counted from zero."""
        self.dist = Categorical(logits, unimix, classes)
        self.maxent = self.dist.maxent

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the events without the class dimension."""
        return self.dist.shape

    def pred(self) -> Array:
        """Return the likeliest class as a one-hot vector with straight-through gradient."""
        return self._straight_through(self.dist.pred())

    def noise(self, seed: Array, shape: tuple[int, ...] = ()) -> Noise:
        """Draw one number from [0, 1) per variable."""
        return self.dist.noise(seed, shape)

    def sample_from_noise(self, noise: Noise) -> Array:
        """Turn uniform numbers into one-hot vectors with straight-through gradient."""
        return self._straight_through(self.dist.sample_from_noise(noise))

    def sample_from_uniform(self, uniform: Array) -> Array:
        """Turn uniform numbers, one in [0, 1) per variable, into one-hot vectors."""
        return self.sample_from_noise(uniform)

    def logp(self, event: Any) -> Array:
        """Return the log probability of one-hot vectors."""
        event = float32(event)
        return jnp.sum(event * jnp.where(event == 0, 0.0, self.dist.log_probs), -1)

    def entropy(self) -> Array:
        """Return the entropy in nats."""
        return self.dist.entropy()

    def kl(self, other: Distribution) -> Array:
        """Return the divergence to another one-hot distribution with the same classes."""
        self._same_kind(other)
        assert isinstance(other, OneHot)
        return self.dist.kl(other.dist)

    def _straight_through(self, index: Array) -> Array:
        probs = self.dist.probs
        onehot = jax.nn.one_hot(index, probs.shape[-1], dtype=jnp.float32)
        return straight_through(onehot, jnp.broadcast_to(probs, onehot.shape))


@jax.custom_jvp
def straight_through(value: Array, surrogate: Array) -> Array:
    """Return `value` with the gradient of `surrogate`.

    Equals ``sg(value) + surrogate - sg(surrogate)``, without computing the difference.
    """
    del surrogate
    return value


@straight_through.defjvp
def _straight_through_jvp(
    primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[Array, Array]:
    return primals[0], tangents[1]
