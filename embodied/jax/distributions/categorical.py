"""Discrete distributions: over booleans, class indices and one-hot vectors."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from embodied.jax.distributions.distribution import Distribution, Noise, float32, uniform

# Up to this many classes the running sum is unrolled, so that it fuses into a single loop.
_UNROLL = 128


class Binary(Distribution):
    """Bernoulli distribution over one logit; targets may be soft labels."""

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
        sample: Array = noise < jax.nn.sigmoid(self.logit)
        return sample

    def logp(self, event: Any) -> Array:
        """Return the log likelihood of `event`, where a value in between mixes both outcomes."""
        event = float32(event)
        yes, no = jax.nn.log_sigmoid(self.logit), jax.nn.log_sigmoid(-self.logit)
        logp: Array = event * yes + (1.0 - event) * no
        return logp

    def entropy(self) -> Array:
        """Return the entropy in nats."""
        return -self.logp(jax.nn.sigmoid(self.logit))

    def kl(self, other: Distribution) -> Array:
        """Return the divergence to another Bernoulli distribution."""
        self._same_kind(other)
        prob = jax.nn.sigmoid(self.logit)
        return self.logp(prob) - other.logp(prob)


class Categorical(Distribution):
    """Categorical distribution over int32 class indices.

    With `unimix` the probabilities are mixed with the uniform distribution, which keeps
    divergences finite and exploration alive (paper, section on world model learning).

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
        shape: tuple[int, ...] = self.probs.shape[:-1]
        return shape

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


class OneHot(Distribution):
    """Categorical distribution over float32 one-hot vectors, as the latents are.

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


def _log(probs: Array) -> Array:
    """Logarithm that is minus infinity at zero without an infinite gradient there."""
    return jnp.where(probs > 0, jnp.log(jnp.where(probs > 0, probs, 1.0)), -jnp.inf)


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


def inverse_cdf(probs: Array, uniform: Array) -> Array:
    """Sample class indices by inverting the cumulative distribution.

    Costs one random number per variable, where Gumbel noise costs one per class. A class of
    probability zero is never returned, whatever the rounding.

    Args:
      probs: Probabilities, [..., C]; they need not be exactly normalized.
      uniform: Numbers in [0, 1), [*extra, ...].

    Returns:
      int32 indices of the shape of `uniform`.
    """
    probs = lax.stop_gradient(probs)
    threshold = uniform * jnp.sum(probs, -1)
    search = _unrolled if probs.shape[-1] <= _UNROLL else _cumulative
    return search(probs, threshold)


def _unrolled(probs: Array, threshold: Array) -> Array:
    """Count the classes whose running sum is at most the threshold.

    A class of probability zero leaves the running sum as it is, so that it is skipped together
    with its predecessor; rounding at the end of the range is caught by the last positive class.
    """
    total = jnp.zeros_like(threshold)
    index = jnp.zeros(threshold.shape, jnp.int32)
    last = jnp.zeros(threshold.shape, jnp.int32)
    for i in range(probs.shape[-1]):
        prob = probs[..., i]
        total = total + prob
        index = index + (total <= threshold)
        last = jnp.where(prob > 0, i, last)
    return jnp.minimum(index, last)


def _cumulative(probs: Array, threshold: Array) -> Array:
    """Find the first positive class whose cumulative sum exceeds the threshold.

    The parallel sum is not monotone to the last bit, which is why positivity is tested.
    """
    positive = probs > 0
    classes = jnp.arange(probs.shape[-1], dtype=jnp.int32)
    last = jnp.max(jnp.where(positive, classes, 0), -1)
    passed = (jnp.cumsum(probs, -1) > threshold[..., None]) & positive
    first = jnp.min(jnp.where(passed, classes, probs.shape[-1]), -1)
    return jnp.minimum(first, last)
