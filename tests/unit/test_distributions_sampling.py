"""Samplers: exactness, edge cases, straight-through gradients, reproducibility."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.jax.distributions import Binary, Categorical, Independent, Normal, OneHot
from embodied.jax.distributions.categorical import inverse_cdf

LARGEST = np.float32(1) - np.float32(2**-24)
CLASSES = [2, 16]


def chi_square(counts, probs):
    expected = probs * counts.sum()
    return ((counts - expected) ** 2 / expected).sum()


@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("unimix", [0.0, 0.1])
def test_frequencies_pass_a_chi_square_test(classes, unimix):
    logits = np.random.default_rng(classes).normal(size=classes).astype(np.float32)
    dist = Categorical(logits, unimix)
    count = 200_000
    sample = jax.jit(lambda key: dist.sample(key, (count,)))(jax.random.PRNGKey(0))
    assert sample.shape == (count,) and sample.dtype == jnp.int32
    counts = np.bincount(sample, minlength=classes)
    freedom = classes - 1
    statistic = chi_square(counts, np.asarray(dist.probs, np.float64))
    assert abs(statistic - freedom) < 5 * np.sqrt(2 * freedom)
    gumbel = jax.random.categorical(jax.random.PRNGKey(1), dist.log_probs, shape=(count,))
    assert chi_square(np.bincount(gumbel, minlength=classes), dist.probs) < 5 * freedom + 20


@pytest.mark.parametrize("classes", CLASSES)
def test_uniform_number_maps_to_the_cumulative_distribution(classes):
    probs = np.random.default_rng(classes).dirichlet(np.ones(classes)).astype(np.float32)
    uniform = np.linspace(0, 1, 1001, dtype=np.float32)[:-1]
    ours = np.asarray(inverse_cdf(jnp.asarray(probs), uniform))
    exact = np.searchsorted(np.cumsum(probs, dtype=np.float64), uniform, side="right")
    assert (ours == exact).mean() > 0.999
    assert np.abs(ours - exact).max() <= 1


@pytest.mark.parametrize("classes", CLASSES)
def test_class_without_probability_is_never_returned(classes):
    """Neither at the ends of the range nor at the steps of the distribution function."""
    rng = np.random.default_rng(classes)
    probs = rng.dirichlet(np.full(classes, 0.3), size=64).astype(np.float32)
    probs[rng.uniform(size=probs.shape) < 0.5] = 0
    probs[:8] = 0
    probs[np.arange(64), rng.integers(0, classes, 64)] += 0.1
    steps = np.cumsum(probs, -1) / probs.sum(-1, keepdims=True)
    near = np.stack([np.nextafter(steps, 0), steps, np.nextafter(steps, 2)], -1).reshape(64, -1)
    ends = np.tile(np.float32([0, 1e-45, 2**-24, 0.5, 1 - 2**-23, LARGEST]), (64, 1))
    uniform = np.clip(np.concatenate([near, ends], 1), 0, LARGEST).astype(np.float32)
    index = jax.jit(inverse_cdf)(probs[:, None], uniform)
    assert (np.take_along_axis(probs, np.asarray(index), 1) > 0).all()


@pytest.mark.parametrize("classes", CLASSES)
def test_sample_is_within_range_at_the_ends(classes):
    dist = Categorical(np.zeros((3, classes), np.float32))
    assert (dist.sample_from_uniform(jnp.zeros(3)) == 0).all()
    assert (dist.sample_from_uniform(jnp.full(3, LARGEST)) == classes - 1).all()


def test_masked_classes_are_not_sampled():
    dist = Categorical(np.zeros((2, 5), np.float32), 0.1, np.array([2, 4]))
    sample = np.asarray(dist.sample(jax.random.PRNGKey(0), (5000,)))
    assert set(sample[:, 0]) == {0, 1} and set(sample[:, 1]) == {0, 1, 2, 3}


def test_sample_equals_sample_from_noise_for_all_families():
    logits = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
    key = jax.random.PRNGKey(3)
    for dist in (
        Categorical(logits),
        OneHot(logits, 0.01),
        Binary(logits[..., 0]),
        Normal(logits[..., 0], 0.3),
        Independent(Normal(logits[..., 0], 0.3), 1),
    ):
        for shape in ((), (2, 7)):
            noise = dist.noise(key, shape)
            assert noise.shape == (*shape, 3, 4)
            sample = dist.sample(key, shape)
            np.testing.assert_array_equal(sample, dist.sample_from_noise(noise))
            assert sample.shape[: len(shape)] == shape
        assert not np.array_equal(dist.sample(key), dist.sample(jax.random.PRNGKey(4)))


def test_onehot_sample_is_one_hot_with_the_gradient_of_the_mixed_probabilities():
    logits = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
    cotangent = np.random.default_rng(1).normal(size=logits.shape).astype(np.float32)
    noise = OneHot(logits).noise(jax.random.PRNGKey(0))
    sample, vjp = jax.vjp(lambda x: OneHot(x, 0.2).sample_from_uniform(noise), logits)
    np.testing.assert_array_equal(np.sort(sample, -1)[..., :-1], 0)
    np.testing.assert_array_equal(sample.sum(-1), 1)
    np.testing.assert_array_equal(
        sample.argmax(-1), Categorical(logits, 0.2).sample_from_noise(noise)
    )
    _, expected = jax.vjp(lambda x: 0.8 * jax.nn.softmax(x) + 0.2 / 5, logits)
    np.testing.assert_allclose(vjp(cotangent)[0], expected(cotangent)[0], rtol=1e-5, atol=1e-7)


def test_onehot_log_probability_of_a_sample():
    logits = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    dist = OneHot(logits, 0.1)
    sample = dist.sample(jax.random.PRNGKey(0))
    expected = Categorical(logits, 0.1).logp(sample.argmax(-1))
    np.testing.assert_allclose(dist.logp(sample), expected, rtol=1e-6)


def test_normal_samples_have_the_moments_and_are_not_clipped():
    dist = Normal(np.float32([0.9, -0.5]), np.float32([1.0, 0.1]))
    sample = np.asarray(dist.sample(jax.random.PRNGKey(0), (100_000,)))
    np.testing.assert_allclose(sample.mean(0), dist.mean, atol=0.02)
    np.testing.assert_allclose(sample.std(0), dist.stddev, rtol=0.02)
    assert sample.max() > 2


def test_binary_samples_have_the_probability():
    dist = Binary(np.float32([-1.0, 0.0, 2.0]))
    sample = dist.sample(jax.random.PRNGKey(0), (100_000,))
    assert sample.dtype == bool
    np.testing.assert_allclose(sample.mean(0), dist.prob(1), atol=0.01)
