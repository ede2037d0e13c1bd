"""Output distributions other than two-hot: recordings, invariants, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle_helpers import assert_close, group, load

from embodied.jax.distributions import (
    MSE,
    Binary,
    Categorical,
    Huber,
    Independent,
    Normal,
    OneHot,
    TwoHot,
)
from embodied.jax.layers import symexp, symlog

RECORDED = load("outputs")
LOGITS = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32) * 2


def outputs():
    mean = LOGITS[..., 0]
    return {
        "mse": MSE(mean),
        "huber": Huber(mean),
        "normal": Normal(mean, 0.5),
        "binary": Binary(mean),
        "categorical": Categorical(LOGITS),
        "onehot": OneHot(LOGITS),
        "twohot": TwoHot(LOGITS, [-2.0, -1.0, 0.0, 1.0, 2.0]),
    }


@pytest.mark.parametrize("unimix", [0.0, 0.01, 0.3])
def test_categorical_matches_recording(unimix):
    rec = group(RECORDED, f"categorical{unimix}")
    dist, other = Categorical(rec["logits"], unimix), Categorical(rec["other"], unimix)
    assert_close(dist.logp(rec["event"]), rec["logp"])
    assert_close(dist.entropy(), rec["entropy"])
    assert_close(dist.kl(other), rec["kl"])
    assert_close(dist.log_probs, jax.nn.log_softmax(rec["mixed_logits"]))


def test_onehot_matches_recording():
    rec = group(RECORDED, "onehot")
    other = RECORDED["categorical0.01/other"]
    mode, vjp = jax.vjp(lambda logits: OneHot(logits, 0.01).pred(), rec["logits"])
    np.testing.assert_array_equal(mode, rec["mode"])
    assert_close(vjp(rec["cotangent"])[0], rec["grad_logits"])

    def divergence(logits, other):
        return OneHot(logits, 0.01).kl(OneHot(other, 0.01)).sum()

    to_self, to_other = jax.grad(divergence, (0, 1))(rec["logits"], other)
    assert_close(to_self, rec["kl_grad_self"][0])
    assert_close(to_other, rec["kl_grad_other"][0])


def test_binary_matches_recording():
    rec = group(RECORDED, "binary")
    dist = Binary(rec["logit"])
    assert_close(dist.loss(rec["target"]), rec["loss"])
    assert_close(dist.prob(1), rec["prob1"])
    np.testing.assert_array_equal(dist.pred(), rec["pred"])


def test_normal_matches_recording():
    rec = group(RECORDED, "normal")
    dist = Normal(rec["mean"], rec["stddev"])
    other = Normal(rec["other_mean"], rec["other_stddev"])
    assert_close(dist.logp(rec["event"]), rec["logp"])
    assert_close(dist.entropy(), rec["entropy"])
    assert_close(dist.kl(other), rec["kl"])


@pytest.mark.parametrize(
    ("name", "make"),
    [("symlog_mse", lambda pred: MSE(pred, symlog)), ("huber", Huber)],
)
def test_regression_matches_recording(name, make):
    rec = group(RECORDED, name)
    assert_close(make(rec["pred"]).loss(rec["target"]), rec["loss"])


def test_mse_of_the_paper_ignores_small_errors_and_predicts_in_data_space():
    target = jnp.float32([0.0, 10.0, -1000.0])
    output = MSE(symlog(target) + jnp.float32([1e-5, 1e-2, 0]), symlog, 1e-8, symexp)
    loss, grad = jax.value_and_grad(lambda x: MSE(x, symlog, 1e-8).loss(target).sum())(output.mean)
    np.testing.assert_allclose(loss, 1e-4, rtol=1e-2)
    np.testing.assert_allclose(grad, [0, 2e-2, 0], rtol=1e-2)
    np.testing.assert_allclose(output.pred(), [0, 10.11, -1000], rtol=2e-3, atol=2e-5)


@pytest.mark.parametrize("name", outputs())
def test_parameters_become_float32_and_shapes_agree(name):
    output = outputs()[name]
    assert output.shape == (3, 4)
    low = {
        "mse": lambda: MSE(jnp.bfloat16(1.5)),
        "huber": lambda: Huber(jnp.bfloat16(1.5)),
        "normal": lambda: Normal(jnp.bfloat16(1.5), jnp.bfloat16(0.5)),
        "binary": lambda: Binary(jnp.bfloat16(1.5)),
        "categorical": lambda: Categorical(jnp.ones(3, jnp.bfloat16)),
        "onehot": lambda: OneHot(jnp.ones(3, jnp.bfloat16)),
        "twohot": lambda: TwoHot(jnp.ones(3, jnp.bfloat16), [-1.0, 0.0, 1.0]),
    }[name]()
    expected = {"binary": jnp.bool_, "categorical": jnp.int32}.get(name, jnp.float32)
    assert low.pred().dtype == expected
    target = jnp.eye(3)[0] if name == "onehot" else 1
    assert low.loss(target).dtype == jnp.float32


@pytest.mark.parametrize("name", ["mse", "huber", "normal", "binary", "categorical", "twohot"])
def test_no_gradient_flows_to_the_target(name):
    output = outputs()[name]
    target = jnp.ones((3, 4), jnp.float32)
    grad = jax.grad(lambda x: output.loss(x).sum())(target)
    np.testing.assert_array_equal(grad, jnp.zeros_like(grad))


@pytest.mark.parametrize("kind", [Categorical, OneHot])
@pytest.mark.slow
def test_unequal_classes_get_no_probability_and_no_gradient(kind):
    classes = np.array([2, 5, 3, 4])

    def make(logits, unimix=0.0):
        return kind(logits, unimix, classes)

    valid = np.broadcast_to(np.arange(5) < classes[:, None], LOGITS.shape)
    for unimix in (0.0, 0.1):
        dist = make(LOGITS, unimix)
        probs = getattr(dist, "dist", dist).probs
        assert (np.asarray(probs)[~valid] == 0).all()
        np.testing.assert_allclose(probs.sum(-1), 1, rtol=1e-6)
        assert np.isfinite(dist.entropy()).all()
        np.testing.assert_allclose(dist.maxent, np.log(classes))
        assert (dist.entropy() <= dist.maxent + 1e-6).all()

        def objective(logits, unimix=unimix):
            mine, other = make(logits, unimix), make(logits[..., ::-1] * 2, unimix)
            return (mine.entropy() + mine.kl(other)).sum()

        grad = np.asarray(jax.grad(objective)(LOGITS))
        assert np.isfinite(grad).all()
        uniform = make(np.zeros_like(LOGITS), unimix)
        np.testing.assert_allclose(uniform.entropy(), np.tile(uniform.maxent, (3, 1)), rtol=1e-6)


def test_categorical_events_may_start_elsewhere():
    dist = Categorical(LOGITS, low=[-1, 0, 2, 7])
    plain = Categorical(LOGITS)
    shift = np.array([-1, 0, 2, 7])
    np.testing.assert_array_equal(dist.pred(), plain.pred() + shift)
    np.testing.assert_array_equal(dist.logp(dist.pred()), plain.logp(plain.pred()))
    key = jax.random.PRNGKey(0)
    np.testing.assert_array_equal(dist.sample(key), plain.sample(key) + shift)


def test_categorical_index_out_of_range_is_not_a_number():
    assert np.isnan(Categorical(LOGITS[0, 0]).logp(5))


def test_divergence_is_positive_and_zero_from_itself():
    rng = np.random.default_rng(1)
    for make in (
        lambda x: Categorical(x, 0.01),
        lambda x: OneHot(x, 0.01),
        lambda x: Binary(x[..., 0]),
        lambda x: Normal(x[..., 0], np.exp(x[..., 1])),
    ):
        one, other = make(LOGITS), make(rng.normal(size=LOGITS.shape))
        np.testing.assert_allclose(one.kl(one), 0, atol=1e-6)
        assert (one.kl(other) > 0).all()


def test_divergence_is_the_mean_log_ratio_of_samples():
    one, other = Normal(0.3, 0.5), Normal(-0.2, 0.8)
    x = one.sample(jax.random.PRNGKey(0), (200_000,))
    np.testing.assert_allclose((one.logp(x) - other.logp(x)).mean(), one.kl(other), rtol=1e-2)


def test_entropy_bounds_are_reached():
    sure, unsure = np.float32([50, 0, 0]), np.zeros(3, np.float32)
    for make in (Categorical, OneHot):
        np.testing.assert_allclose(make(sure).entropy(), make(sure).minent, atol=1e-6)
        np.testing.assert_allclose(make(unsure).entropy(), make(unsure).maxent, rtol=1e-6)
    np.testing.assert_allclose(Binary(0.0).entropy(), Binary.maxent, rtol=1e-6)
    narrow, wide = Normal(0.0, 0.1, 0.1, 1.0), Normal(0.0, 1.0, 0.1, 1.0)
    np.testing.assert_allclose(narrow.entropy(), narrow.minent, rtol=1e-6)
    np.testing.assert_allclose(wide.entropy(), wide.maxent, rtol=1e-6)
    assert Normal(0.0, 1.0).minent is None


def test_aggregation_sums_over_trailing_dimensions():
    inner, other = Normal(LOGITS, 0.5, 0.1, 1.0), Normal(LOGITS * 0.5, 0.7)
    dist = Independent(inner, 2)
    assert dist.shape == (3,)
    assert dist.pred().shape == LOGITS.shape
    event = np.zeros_like(LOGITS)
    for name, args in (("logp", (event,)), ("loss", (event,)), ("entropy", ())):
        expected = getattr(inner, name)(*args).sum((1, 2))
        np.testing.assert_allclose(getattr(dist, name)(*args), expected, rtol=1e-6)
    np.testing.assert_allclose(
        dist.kl(Independent(other, 2)), inner.kl(other).sum((1, 2)), rtol=1e-6
    )
    np.testing.assert_allclose(dist.prob(LOGITS), np.exp(dist.logp(LOGITS)), rtol=1e-6)
    np.testing.assert_allclose(dist.minent, 20 * inner.minent, rtol=1e-6)
    key = jax.random.PRNGKey(0)
    np.testing.assert_array_equal(dist.sample(key, (2,)), inner.sample(key, (2,)))
    classes = np.array([2, 5, 3, 4])
    masked = Independent(Categorical(LOGITS, 0.0, classes), 1)
    np.testing.assert_allclose(masked.maxent, np.log(classes).sum(), rtol=1e-6)


def test_misuse_is_refused():
    with pytest.raises(ValueError, match="3 dimensions to sum over"):
        Independent(Binary(np.zeros((2, 2))), 3)
    with pytest.raises(TypeError, match="Got OneHot to compare with Categorical"):
        Categorical(LOGITS).kl(OneHot(LOGITS))
    with pytest.raises(TypeError, match="Got Normal to compare with Independent"):
        Independent(Normal(LOGITS), 1).kl(Normal(LOGITS))
    with pytest.raises(ValueError, match="must be the same"):
        MSE(LOGITS).loss(LOGITS[0])
    with pytest.raises(ValueError, match="must be the same"):
        Huber(LOGITS).loss(LOGITS[0])
    with pytest.raises(NotImplementedError, match="MSE has no such thing as an entropy"):
        MSE(LOGITS).entropy()
