"""The actor-critic losses against recordings of the public code."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle_helpers import assert_close, group, load

from dreamerv3.losses import imagination_targets, policy_loss, replay_loss, value_loss
from embodied.jax import nj
from embodied.jax.distributions import Categorical, Independent, Normal, TwoHot
from embodied.jax.heads import symexp_bins
from embodied.jax.normalize import Normalize

NORM_OFF = {"impl": "none", "rate": 0.01, "limit": 1e-8}
NORM_ON = {"impl": "meanstd", "rate": 0.01, "limit": 1e-8}
RETNORM = {
    "impl": "perc",
    "rate": 0.01,
    "limit": 1.0,
    "perclo": 5.0,
    "perchi": 95.0,
    "debias": False,
}
VARIANTS = {
    "default": {},
    "slowtar_nocontdisc": {"slowtar": True, "contdisc": False},
    "norms": {},
}


@functools.cache
def recording():
    return load("actor_critic")


def policies(params):
    if "logits" in params:
        return {"action": Categorical(params["logits"])}
    return {"action": Independent(Normal(params["mean"], params["stddev"]), 1)}


@pytest.mark.parametrize("kind", ["cont", "disc"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_imagination_loss_matches_the_recording(kind, variant):
    rec = group(recording(), f"imag_loss/{kind}_{variant}")
    other = NORM_ON if variant == "norms" else NORM_OFF
    norms = {
        "retnorm": Normalize(**RETNORM, name="retnorm"),
        "valnorm": Normalize(**other, name="valnorm"),
        "advnorm": Normalize(**other, name="advnorm"),
    }
    bins = symexp_bins(255)
    params = {"value": rec["value_logits"], "policy": group(rec, "policy")}

    def run(params):
        value, slow = TwoHot(params["value"], bins), TwoHot(rec["slowvalue_logits"], bins).pred()
        targets = imagination_targets(
            jnp.asarray(rec["rew"]),
            jnp.asarray(rec["con"]),
            value.pred(),
            slow,
            **norms,
            update=True,
            **VARIANTS[variant],
        )
        # The recording has distributions of the last state, too, in which nothing is learned.
        learned = lambda tree: jax.tree.map(lambda x: x[:, :-1], tree)  # noqa: E731
        policy, metrics = policy_loss(
            policies(learned(params["policy"])),
            {"action": rec["act"][:, :-1]},
            targets.advantage,
            targets.weight,
        )
        value = TwoHot(params["value"][:, :-1], bins)
        losses = {
            "policy": policy,
            "value": value_loss(value, targets.value, slow[:, :-1], targets.weight),
        }
        metrics = targets.metrics | {key: value.mean() for key, value in metrics.items()}
        return losses, targets.returns, metrics

    def objective(params):
        state, out = nj.pure(run)(group(rec, "state_before"), params, modify=True)
        return sum(loss.sum() for loss in out[0].values()), (state, out)

    gradients = jax.jit(jax.value_and_grad(objective, has_aux=True))
    (_, (state, (losses, returns, metrics))), grads = gradients(params)
    assert_close(returns, rec["ret"], what="returns")
    for key, value in group(rec, "loss").items():
        assert_close(losses[key], value, what=key)
    for key, value in group(rec, "metrics").items():
        # Means of advantages are rounding errors next to zero.
        if abs(metrics[key] - value) > 1e-8:
            assert_close(metrics[key], value, 2e-5, what=key)
    for key, value in group(rec, "state_after").items():
        assert_close(state[key], value, what=key)
    assert_close(grads["value"], rec["grad/value_logits"], 1e-4, what="value gradient")
    for key, value in group(rec, "grad/policy").items():
        assert_close(grads["policy"][key], value, 1e-4, what=key)


@pytest.mark.parametrize("variant", ["default", "slowtar"])
def test_replay_loss_matches_the_recording(variant):
    """The option `slowtar` made no difference when the recording was made, and is gone."""
    rec = group(recording(), f"repl_loss/{variant}")
    bins = symexp_bins(255)
    loss, returns = replay_loss(
        rec["last"],
        rec["term"],
        rec["rew"],
        rec["boot"],
        TwoHot(rec["value_logits"], bins),
        TwoHot(rec["slowvalue_logits"], bins).pred(),
        valnorm=Normalize(**NORM_OFF, name="valnorm"),
        update=True,
    )
    assert_close(returns, rec["ret"])
    assert_close(loss, rec["loss/repval"])


@pytest.mark.slow
def test_scaling_rewards_leaves_the_normalized_policy_loss_unchanged():
    """User report 11g: after warm-up only the normalized advantage matters."""
    rng = np.random.default_rng(0)
    shape = (64, 6)
    reward, cont = rng.normal(size=shape), np.full(shape, 0.99)
    logits = rng.normal(size=(*shape, 4)).astype(np.float32)
    action = {"action": rng.integers(0, 4, shape)[:, :-1]}

    def loss_of(scale):
        zeros = jnp.zeros(shape)
        norms = {k: Normalize(**NORM_OFF, name=k) for k in ("valnorm", "advnorm")}
        retnorm = Normalize(**{**RETNORM, "rate": 0.5}, name="retnorm")

        def run():
            targets = imagination_targets(
                jnp.float32(scale * reward),
                jnp.float32(cont),
                zeros,
                zeros,
                retnorm=retnorm,
                **norms,
                update=True,
            )
            policy = {"action": Categorical(logits[:, :-1])}
            return policy_loss(policy, action, targets.advantage, targets.weight, 0.0)[0]

        state, _ = nj.pure(run)({}, create=True, modify=True)
        update = jax.jit(lambda state: nj.pure(run)(state, modify=True))
        for _ in range(40):
            state, loss = update(state)
        return loss

    assert_close(loss_of(1000.0), loss_of(10.0), 1e-4)


def test_an_action_without_a_choice_has_no_randomness_and_no_nan():
    policy = {
        "one": Independent(Categorical(np.zeros((3, 1, 1))), 1),
        "two": Independent(Categorical(np.zeros((3, 1, 2))), 1),
    }
    action = {key: np.zeros((3, 1), np.int32) for key in policy}
    loss, metrics = policy_loss(policy, action, np.ones(3), np.ones(3))
    assert np.isfinite(loss).all()
    assert metrics["rand/one"].tolist() == [0, 0, 0]
    assert_close(metrics["rand/two"], np.ones(3))
