"""Optimizer: recordings, transforms, state paths, metrics, loss scaling, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from oracle_helpers import children, group, load

from embodied.jax import nj
from embodied.jax.layers import Linear
from embodied.jax.optimizer import (
    Optimizer,
    clip_by_agc,
    learning_rate,
    scale_by_momentum,
    scale_by_rms,
)

GRADS = load("optimizer")
CASES = {
    "optimizer": {"lr": 4e-5, "warmup": 5},
    "optimizer_wd_cosine": {
        "lr": 1e-2, "wd": 0.1, "schedule": "cosine", "warmup": 3, "anneal": 10,
    },
}  # fmt: skip
X = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("jit", [pytest.param(False, marks=pytest.mark.slow), True])
def test_matches_recording(name, jit):
    rec = load(name)
    chain = Optimizer([], **CASES[name], name="opt").chain
    update = jax.jit(chain.update) if jit else chain.update
    start = group(GRADS, "params/0")
    params = {key: jnp.asarray(value) for key, value in start.items()}
    state = chain.init(params)
    for step in range(len(children(group(GRADS, "grads")))):
        updates, state = update(group(GRADS, f"grads/{step}"), state, params)
        params = optax.apply_updates(params, updates)
        for key, value in group(rec, f"params/{step + 1}").items():
            # Parameters barely move in twelve updates, so that their changes are compared, up to
            # the rounding of the parameters themselves.
            change, expected = np.asarray(params[key]) - start[key], value - start[key]
            atol = 1e-4 * np.abs(expected).max() + 2e-7 * np.abs(value).max()
            np.testing.assert_allclose(change, expected, 0, atol, err_msg=f"{key}, update {step}")


def test_clipping_is_per_tensor_and_relative_to_the_parameters():
    params = {"a": jnp.float32([3, 4]), "b": jnp.zeros(4), "c": jnp.full((2, 2), 10.0)}
    grads = {"a": jnp.float32([0, 9]), "b": jnp.full(4, 5.0), "c": jnp.ones((2, 2))}
    clipped, _ = clip_by_agc(0.3).update(grads, optax.EmptyState(), params)
    np.testing.assert_allclose(clipped["a"], [0, 1.5], rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(clipped["b"]), 0.3 * 1e-3, rtol=1e-6)
    np.testing.assert_array_equal(clipped["c"], grads["c"])
    with pytest.raises(ValueError, match="no parameters"):
        clip_by_agc(0.3).update(grads, optax.EmptyState())


def test_first_normalized_update_is_the_sign_whatever_the_scale():
    for scale in (1e-15, 1e-6, 1.0, 1e12):
        rms = scale_by_rms(0.999, 1e-20)
        grads = {"a": jnp.float32([1, -2, 0]) * scale}
        updates, _ = rms.update(grads, rms.init(grads))
        np.testing.assert_allclose(updates["a"], [1, -1, 0], rtol=1e-4)


@pytest.mark.parametrize("magnitude", [0.0, 1e-45, 1e-30, 2e-18, 3e-18])
def test_gradient_whose_square_underflows_does_not_update(magnitude):
    """Without a guard it would be divided by eps alone."""
    rms = scale_by_rms(0.999, 1e-20)
    grads = {"a": jnp.float32([magnitude, 1.0])}
    state = rms.init(grads)
    for _ in range(3):
        updates, state = jax.jit(rms.update)(grads, state)
        np.testing.assert_allclose(updates["a"], [0, 1], rtol=1e-4)


def test_without_the_guard_a_tiny_gradient_is_divided_by_eps_as_in_the_public_code():
    rms = scale_by_rms(0.999, 1e-20, guard=False)
    grads = {"a": jnp.float32([0.0, 2e-19, -1.5e-18])}
    updates, _ = jax.jit(rms.update)(grads, rms.init(grads))
    np.testing.assert_allclose(updates["a"], [0, 20, -150], rtol=1e-4)


def test_momentum_is_debiased():
    momentum = scale_by_momentum(0.9)
    state, mean = momentum.init({"a": jnp.zeros(())}), 0.0
    for step, value in enumerate([1.0, -3.0, 2.0]):
        mean = 0.9 * mean + 0.1 * value
        update, state = momentum.update({"a": jnp.float32(value)}, state)
        np.testing.assert_allclose(update["a"], mean / (1 - 0.9 ** (step + 1)), rtol=1e-5)


def test_learning_rate_schedules():
    steps = np.arange(40)
    const = learning_rate(2.0, "const", 10)
    np.testing.assert_allclose([const(k) for k in steps], 2 * np.minimum(steps / 10, 1), rtol=1e-6)
    np.testing.assert_allclose([learning_rate(2.0, "const", 0)(k) for k in steps], 2.0)
    linear = learning_rate(2.0, "linear", warmup=10, anneal=30)
    for step, expected in ((0, 0.0), (10, 2.0), (20, 1.1), (30, 0.2), (39, 0.2)):
        np.testing.assert_allclose(linear(step), expected, rtol=1e-5)
    cosine = learning_rate(2.0, "cosine", warmup=10, anneal=30)
    for step, expected in ((5, 1.0), (10, 2.0), (20, 1.2), (30, 0.4), (39, 0.4)):
        np.testing.assert_allclose(cosine(step), expected, rtol=1e-5)
    with pytest.raises(ValueError, match="Got the schedule 'exp'"):
        learning_rate(1.0, "exp", 0)
    with pytest.raises(ValueError, match="after the warmup"):
        learning_rate(1.0, "cosine", warmup=10, anneal=10)


def test_weight_decay_concerns_kernels_only():
    chain = Optimizer([], lr=1.0, wd=0.1, warmup=0, name="opt").chain
    params = {"a/kernel": jnp.float32([2.0]), "a/bias": jnp.float32([2.0])}
    grads = {key: jnp.zeros(1) for key in params}
    updates, _ = chain.update(grads, chain.init(params), params)
    np.testing.assert_allclose(updates["a/kernel"], [-0.2], rtol=1e-6)
    np.testing.assert_array_equal(updates["a/bias"], [0])


class Problem:
    """Regression onto zero by one layer, for which the loss has an auxiliary output."""

    def __init__(self, **options):
        self.layer = Linear(2, name="enc")
        self.other = Linear(2, name="fixed")
        self.opt = Optimizer([self.layer], **options, name="opt")
        self.scale = 1.0

    def loss(self, x, shift=0.0):
        y = self.layer(x) + 0.1 * self.other(x) + shift
        return jnp.square(y).mean() * self.scale, {"y": y}

    def step(self, x):
        return self.opt(self.loss, x, shift=0.5, has_aux=True)


def train(problem, state, steps, x=X):
    update = jax.jit(lambda state, x: nj.pure(problem.step)(state, x, modify=True, seed=1))
    for _ in range(steps):
        state, (metrics, aux) = update(state, x)
    return state, metrics, aux


def test_module_paths_metrics_and_progress():
    problem = Problem(lr=1e-2, warmup=0)
    state = nj.init(problem.step)({}, X, seed=0)
    weights = ["enc/kernel", "enc/bias"]
    assert state.keys() == {
        *weights,
        "fixed/kernel",
        "fixed/bias",
        "opt/step/value",
        "opt/state/1/0",
        "opt/state/2/0",
        "opt/state/3/count",
        *(f"opt/state/{part}/1/{key}" for part in (1, 2) for key in weights),
    }
    for key in ("opt/step/value", "opt/state/1/0", "opt/state/2/0", "opt/state/3/count"):
        assert state[key].dtype == jnp.int32 and state[key] == 0
    after, metrics, aux = train(problem, state, 1)
    assert aux["y"].shape == (8, 2)
    assert metrics.keys() == {
        f"opt/{key}"
        for key in (
            "loss",
            "grad_norm",
            "grad_rms",
            "update_rms",
            "param_rms",
            "param_count",
            "updates",
        )
    }
    flat = lambda state: np.concatenate([np.ravel(state[key]) for key in weights])  # noqa: E731
    rms = lambda x: np.sqrt(np.mean(np.square(x)))  # noqa: E731
    grad = jax.grad(lambda p: nj.pure(problem.loss)({**state, **p}, X, 0.5)[1][0])(
        {key: state[key] for key in weights}
    )
    np.testing.assert_allclose(metrics["opt/grad_norm"], np.linalg.norm(flat(grad)), rtol=1e-5)
    np.testing.assert_allclose(metrics["opt/grad_rms"], rms(flat(grad)), rtol=1e-5)
    change = flat(after) - flat(state)
    np.testing.assert_allclose(metrics["opt/update_rms"], rms(change), rtol=1e-4)
    np.testing.assert_allclose(metrics["opt/param_rms"], rms(flat(after)), rtol=1e-5)
    assert metrics["opt/param_count"] == 8 and metrics["opt/updates"] == 1
    np.testing.assert_array_equal(after["fixed/kernel"], state["fixed/kernel"])
    _, later, _ = train(problem, after, 200)
    assert later["opt/loss"] < 0.1 * metrics["opt/loss"]
    assert later["opt/updates"] == 201


def test_first_update_of_a_warmup_changes_moments_but_no_parameters():
    problem = Problem(lr=1e-2, warmup=10)
    state = nj.init(problem.step)({}, X, seed=0)
    after, metrics, _ = train(problem, state, 1)
    np.testing.assert_array_equal(after["enc/kernel"], state["enc/kernel"])
    assert metrics["opt/update_rms"] == 0
    assert np.abs(after["opt/state/2/1/enc/kernel"]).max() > 0


def test_state_positions_do_not_depend_on_what_is_off():
    problem = Problem(agc=0.0, momentum=False)
    state = nj.init(problem.step)({}, X, seed=0)
    assert "opt/state/1/1/enc/kernel" in state and "opt/state/3/count" in state
    assert not any(key.startswith("opt/state/2") for key in state)


def test_loss_without_auxiliary_output_returns_metrics_only():
    problem = Problem()

    def step(x):
        return problem.opt(lambda x: problem.loss(x)[0], x)

    state = nj.init(step)({}, X, seed=0)
    _, metrics = nj.pure(step)(state, X, modify=True, seed=1)
    assert "opt/loss" in metrics


def test_one_optimizer_takes_several_modules_and_one_trace_does_not_leak_into_another():
    problem = Problem(lr=1e-2, warmup=0)
    problem.opt = Optimizer([problem.layer, problem.other], name="opt")
    state = nj.init(problem.step)({}, X, seed=0)
    assert "opt/state/1/1/fixed/bias" in state
    with jax.checking_leaks():
        train(problem, state, 1)
        train(problem, state, 1, X[:4])


def test_loss_scaling_skips_what_overflows_and_recovers():
    problem = Problem(lr=1e-2, warmup=0, loss_scaling=True)
    state = nj.init(problem.step)({}, X, seed=0)
    assert state["opt/grad_scale/value"] == 1e4 and state["opt/good_steps/value"] == 0
    plain = Problem(lr=1e-2, warmup=0)
    expected, _, _ = train(plain, nj.init(plain.step)({}, X, seed=0), 1)
    after, metrics, _ = train(problem, state, 1)
    np.testing.assert_allclose(after["enc/kernel"], expected["enc/kernel"], rtol=1e-4)
    assert metrics["opt/grad_overflow"] == 0 and after["opt/good_steps/value"] == 1
    problem.scale = 1e38
    skipped, metrics, _ = train(problem, after, 1)
    assert metrics["opt/grad_overflow"] == 1
    assert skipped["opt/grad_scale/value"] == 5e3 and skipped["opt/good_steps/value"] == 0
    for key in after:
        if not key.startswith(("opt/grad_scale", "opt/good_steps")):
            np.testing.assert_array_equal(skipped[key], after[key])
    problem.scale = 1.0
    ready = {**after, "opt/good_steps/value": jnp.int32(999)}
    grown, _, _ = train(problem, ready, 1)
    assert grown["opt/grad_scale/value"] == 2e4 and grown["opt/good_steps/value"] == 0


@pytest.mark.parametrize(
    "loss", [lambda x: x.sum().astype(jnp.bfloat16), lambda x: x.sum(0), lambda x: 1]
)
def test_loss_that_is_no_float32_scalar_is_refused(loss):
    problem = Problem()

    def step(x):
        return problem.opt(lambda x: loss(problem.layer(x)), x)

    with pytest.raises(TypeError, match="expected a float32 scalar"):
        nj.init(step)({}, X, seed=0)
