"""Actor and critic losses on imagined steps, and where their gradients go."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dreamerv3.agent
from dreamerv3.agent import Dreamer
from dreamerv3.cli.presets import Presets
from dreamerv3.losses import policy_loss
from embodied.core.config import Config
from embodied.core.space import Space
from embodied.jax import nj
from embodied.jax.heads import MLPHead

OBS = {
    "vector": Space(np.float32, (5,)),
    "reward": Space(np.float32),
    **{key: Space(bool) for key in ("is_first", "is_last", "is_terminal")},
}
ACT = {"move": Space(np.float32, (2,), -1, 1), "button": Space(np.int32, (), 0, 3)}
ACTOR_CRITIC = ("pol", "val")
ROWS, LENGTH = 2, 4
# One weight per start and loss, as an author of a new objective would put in.
WEIGHTS = {
    key: np.random.default_rng(seed).uniform(-1, 2, (ROWS, LENGTH - 1)).astype(np.float32)
    for seed, key in enumerate(("policy", "value"))
}


def build(**options):
    presets = Presets.load()
    config = presets.defaults.update(presets.changes("debug"))
    # The critic begins with zeros, through which no gradient reaches its other layers.
    options = {"value.outscale": 1.0, "repval_loss": False, **options}
    config = config.update({f"agent.{key}": value for key, value in options.items()})
    return Dreamer(OBS, ACT, Config({**config.agent, "replay_context": 1}))


def gradients(model):
    """Losses on random data, and gradients of those of actor and critic, weighted per state."""
    rng = np.random.default_rng(0)
    spaces = {**model.obs_space, **model.act_space, **model.ext_space}
    data = {k: np.zeros((ROWS, LENGTH, *s.shape), s.dtype) for k, s in spaces.items()}
    for key in ("vector", "reward", "move"):
        data[key] = rng.normal(size=data[key].shape).astype(np.float32)

    def loss():
        losses, _ = model.losses(*model.split(model.init_train(ROWS), data), training=True)
        return sum((WEIGHTS[key] * losses[key]).mean() for key in WEIGHTS), losses

    run = lambda: nj.grad(loss, model.opt.modules, has_aux=True)()  # noqa: E731
    create = nj.init(lambda: model.train(model.init_train(ROWS), data))
    state = jax.jit(lambda: create({}, seed=0))()
    _, _, grads, losses = jax.jit(lambda s: nj.pure(run)(s, seed=1, modify=True)[1])(state)
    return grads, losses


def step_weights(loss):
    """One weight per imagined step and start."""
    return 1 + jnp.arange(loss.size).reshape(loss.shape) % 7


def weighted_policy_loss(*args):
    """The policy loss as an author may edit it."""
    loss, metrics = policy_loss(*args)
    return step_weights(loss) * loss, metrics


@pytest.fixture(scope="module")
def edited():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dreamerv3.agent, "policy_loss", weighted_policy_loss)
        yield


@pytest.fixture(scope="module")
def stepwise(edited):
    return gradients(build(imag_parts="steps"))


@pytest.fixture(scope="module")
def ordinary(edited):
    """The same with heads that are called and differentiated as anything else."""
    with pytest.MonkeyPatch.context() as patch:
        call = lambda head, x, known, steps: head(x, x.ndim - 1)  # noqa: E731
        patch.setattr(MLPHead, "recall", call)
        return gradients(build())


def assert_same(result, expected):
    for key in ("policy", "value"):
        assert np.allclose(result[1][key], expected[1][key], rtol=1e-5, atol=1e-6), key
    for path, grad in expected[0].items():
        if path.startswith(ACTOR_CRITIC):
            assert np.allclose(result[0][path], grad, rtol=1e-4, atol=1e-6), path


@pytest.mark.slow
def test_losses_have_a_value_per_start(stepwise):
    _, losses = stepwise
    assert losses["policy"].shape == losses["value"].shape == (2, 3)
    assert len(set(np.asarray(losses["value"]).ravel().tolist())) == 6


@pytest.mark.slow
def test_only_actor_and_critic_learn(stepwise):
    for path, grad in stepwise[0].items():
        learns = path.split("/")[0] in ACTOR_CRITIC
        assert bool(jnp.abs(grad).max() > 0) is learns, path


@pytest.mark.slow
def test_weights_per_state_weight_the_gradient(stepwise, ordinary):
    """What is multiplied into a loss, per start or imagined step, is differentiated like it."""
    assert_same(stepwise, ordinary)


@pytest.mark.slow
def test_steps_and_the_whole_are_the_same(ordinary):
    assert_same(gradients(build(imag_parts="whole")), ordinary)


@pytest.mark.slow
def test_gradients_through_features_train_the_world_model_too(stepwise):
    grads, losses = gradients(build(ac_grads=True))
    assert_same((grads, losses), stepwise)
    assert jnp.abs(grads["enc/mlp0/kernel"]).max() > 0
    assert not jnp.abs(grads["dec/mlp/linear0/kernel"]).any()
