"""The two-hot output: recordings, exact zeros, and the plain formula it replaces."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle_helpers import assert_close, group, load

from embodied.jax.distributions import TwoHot
from embodied.jax.distributions.twohot import two_hot
from embodied.jax.heads import symexp_bins
from embodied.jax.layers import symexp, symlog

RECORDED = load("outputs")
COUNTS = [255, 41, 8]


def plain_loss(logits, target, bins):
    """Two-hot encoding as a sum of one-hot tensors."""
    count = len(bins)
    below = np.clip((bins <= target[..., None]).sum(-1) - 1, 0, count - 1)
    above = np.clip(count - (bins > target[..., None]).sum(-1), 0, count - 1)
    equal = below == above
    to_below = np.where(equal, 1, np.abs(bins[below] - target))
    to_above = np.where(equal, 1, np.abs(bins[above] - target))
    total = to_below + to_above
    eye = np.eye(count, dtype=np.float32)
    weights = (to_above / total)[..., None] * eye[below] + (to_below / total)[..., None] * eye[
        above
    ]
    return -(weights * jax.nn.log_softmax(logits)).sum(-1)


@pytest.mark.parametrize("count", COUNTS)
def test_matches_recording(count):
    rec = group(RECORDED, f"twohot{count}")
    bins = rec["bins"]
    loss = lambda logits: TwoHot(logits, bins).loss(rec["target"])  # noqa: E731
    pred = lambda logits: TwoHot(logits, bins).pred()  # noqa: E731
    assert_close(jax.jit(loss)(rec["logits"]), rec["loss"])
    grad = jax.jit(jax.grad(lambda logits: loss(logits).sum()))(rec["logits"])
    assert_close(grad, rec["grad_logits"])
    np.testing.assert_allclose(jax.jit(pred)(rec["logits"]), rec["pred"], rtol=1e-4)
    np.testing.assert_allclose(jax.jit(pred)(rec["calm_logits"]), rec["calm_pred"], rtol=1e-5)
    assert_close(jax.jit(pred)(np.zeros_like(rec["logits"][:2])), rec["uniform_pred"])
    grad = jax.jit(jax.grad(lambda logits: pred(logits).sum()))(rec["calm_logits"])
    for ours, theirs in zip(grad, rec["grad_pred_logits"], strict=True):
        assert_close(ours, theirs, 1e-4)


@pytest.mark.parametrize("count", [*COUNTS, 2, 3])
def test_bins_are_those_of_the_recording_and_antisymmetric(count):
    bins = symexp_bins(count)
    assert bins.shape == (count,) and bins.dtype == np.float32
    np.testing.assert_array_equal(bins, -bins[::-1])
    assert (np.diff(bins) >= 0).all()
    if count in COUNTS:
        np.testing.assert_array_equal(bins, RECORDED[f"twohot{count}/bins"])
        np.testing.assert_array_equal(jax.jit(lambda: symexp_bins(count))(), bins)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("shape", [(), (1024, 15)])
def test_uniform_prediction_is_exactly_zero(count, shape):
    """Also where a compiler fuses multiplication and addition."""
    predict = jax.jit(lambda logits: TwoHot(logits, symexp_bins(count)).pred())
    for logit in (0.0, 0.3, -7.1, 1e4):
        pred = predict(np.full((*shape, count), logit, np.float32))
        np.testing.assert_array_equal(pred, np.zeros(shape))
    eager = TwoHot(jnp.full((*shape, count), 0.3), symexp_bins(count)).pred()
    np.testing.assert_array_equal(eager, np.zeros(shape))


def test_prediction_is_odd_under_reversal():
    rec = group(RECORDED, "twohot255")
    forward = TwoHot(rec["calm_logits"], rec["bins"]).pred()
    backward = TwoHot(rec["calm_logits"][:, ::-1], rec["bins"]).pred()
    np.testing.assert_allclose(forward, -backward, rtol=1e-5)


def test_prediction_is_accurate_for_nearly_uniform_logits():
    """The bins go up to 5e8, so that rounding errors are as large as ordinary returns."""
    bins = symexp_bins(255)
    logits = np.random.default_rng(0).normal(size=(512, 255)).astype(np.float32) * 1e-4
    exact = np.exp(logits.astype(np.float64))
    exact = (exact * bins).sum(-1) / exact.sum(-1)
    error = np.asarray(jax.jit(lambda x: TwoHot(x, bins).pred())(logits)) - exact
    assert np.sqrt(np.mean(error**2)) < 0.2


@pytest.mark.parametrize("count", [3, 255])
def test_several_losses_share_the_object_and_equal_the_plain_formula(count):
    rng = np.random.default_rng(count)
    bins = symexp_bins(count)
    logits = rng.normal(size=(6, 5, count)).astype(np.float32) * 3
    targets = [symexp(rng.normal(size=(6, 5)).astype(np.float32) * 8) for _ in range(2)]
    weight = rng.uniform(size=(6, 5)).astype(np.float32)

    def ours(logits):
        dist = TwoHot(logits, bins)
        return (weight * (dist.loss(targets[0]) + 0.5 * dist.loss(targets[1]))).sum()

    def plain(logits):
        first, second = (plain_loss(logits, np.asarray(t), bins) for t in targets)
        return (weight * (first + 0.5 * second)).sum()

    for one, two in zip(
        jax.jit(jax.value_and_grad(ours))(logits),
        jax.jit(jax.value_and_grad(plain))(logits),
        strict=True,
    ):
        assert_close(one, two, 1e-6)


def test_targets_are_split_between_neighbours():
    bins = jnp.float32([-4, -1, 0, 1, 3])
    value = jnp.float32([-9, -4, -2, 0, 0.25, 2.5, 3, 9])
    below, above, lower, upper = two_hot(value, bins)
    np.testing.assert_allclose(lower + upper, 1)
    inside = np.clip(value, -4, 3)
    np.testing.assert_allclose(lower * bins[below] + upper * bins[above], inside, rtol=1e-6)
    np.testing.assert_allclose(lower[:5], [0.5, 1, 1 / 3, 1, 0.75], rtol=1e-6)
    assert (bins[below] <= inside).all() and (bins[above] >= inside).all()


@pytest.mark.parametrize("bins", [[-4.0, -1, 0, 1, 3], [0.0, 1, 2, 5], [7.0], [-3.0, 9]])
def test_expectation_over_bins_that_are_not_symmetric(bins):
    logits = np.random.default_rng(0).normal(size=(6, len(bins))).astype(np.float32)
    expected = (np.asarray(jax.nn.softmax(logits), np.float64) * bins).sum(-1)
    np.testing.assert_allclose(TwoHot(logits, bins).pred(), expected, rtol=1e-5, atol=1e-6)


def test_squashed_bins_interpolate_in_squashed_space():
    bins = np.linspace(-3, 3, 7, dtype=np.float32)
    logits = np.full((7,), -30, np.float32)
    logits[5] = 30
    dist = TwoHot(logits, bins, symlog, symexp)
    np.testing.assert_allclose(dist.pred(), symexp(jnp.float32(2)), rtol=1e-5)
    np.testing.assert_allclose(dist.loss(symexp(jnp.float32(2))), 0, atol=1e-5)
    np.testing.assert_allclose(dist.loss(symexp(jnp.float32(1.5))), 30, rtol=1e-4)


def test_misuse_is_refused():
    with pytest.raises(ValueError, match="must be the number of bins"):
        TwoHot(np.zeros((2, 5)), np.zeros(4))
    with pytest.raises(ValueError, match="must be the same"):
        TwoHot(np.zeros((2, 5)), np.arange(5)).loss(np.zeros(()))
    with pytest.raises(ValueError, match="at least 2"):
        symexp_bins(1)
