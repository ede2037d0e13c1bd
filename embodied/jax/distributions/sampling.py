"""Exact sampling from categorical distributions with one uniform number per variable."""

import jax.numpy as jnp
from jax import Array, lax

# Up to this many classes the running sum is unrolled, so that it fuses into a single loop.
_UNROLL = 128


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
