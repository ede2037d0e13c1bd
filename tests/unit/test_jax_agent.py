"""A model that defines only what it must, behind the agents of the toolkit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dreamerv3.cli.presets import Presets
from embodied.core.config import Config
from embodied.core.space import Space
from embodied.core.streams import Stateless
from embodied.jax import layers as nn
from embodied.jax import nj
from embodied.jax.inference_agent import InferenceAgent
from embodied.jax.jax_agent import JaxAgent
from embodied.jax.model import Model
from embodied.jax.platform import prepare_process

FLAGS = {key: Space(bool) for key in ("is_first", "is_last", "is_terminal")}
OBS = {"vector": Space(np.float32, 4), "reward": Space(np.float32), **FLAGS}
ACT = {"action": Space(np.int32, (), 0, 3)}
CONFIG = Config(
    {
        "jax": Presets.load().defaults.jax,
        "seed": 0, "batch_size": 4, "batch_length": 5, "report_length": 3, "replay_context": 0,
        "policy_batch": 2, "prefetch": 1, "deterministic": True, "nonfinite": "skip", "rate": 0.5,
    }
)  # fmt: skip


class Regression(Model):
    """Predicts the reward of each action and takes the best one."""

    def __init__(self, obs_space, act_space, config, dtype):
        self.net = nj.make("net", nn.Linear, 3)
        self.rate = config.rate

    def init_policy(self, batch_size):
        return ()

    def init_train(self, batch_size):
        return ()

    def policy(self, carry, obs, deterministic=False):
        values = self.net(obs["vector"])
        noise = 0.0 if deterministic else jax.random.gumbel(nj.seed(), values.shape)
        return carry, {"action": (values + noise).argmax(-1)}, {}

    def train(self, carry, data):
        def loss():
            values = jnp.take_along_axis(self.net(data["vector"]), data["action"][..., None], -1)
            return jnp.square(values[..., 0] - data["reward"]).mean()

        value, params, grads = nj.grad(loss, [self.net])()
        self.net.put({key: param - self.rate * grads[key] for key, param in params.items()})
        return carry, {}, {"error": value}


@pytest.fixture(scope="module")
def platform():
    return prepare_process(CONFIG.jax)


@pytest.fixture(scope="module")
def agent(platform):
    return JaxAgent(Regression, OBS, ACT, CONFIG, platform)


def batch():
    rng = np.random.default_rng(0)
    data = {k: np.zeros((4, 5, *s.shape), s.dtype) for k, s in {**OBS, **ACT}.items()}
    data["vector"] = rng.normal(size=(4, 5, 4)).astype(np.float32)
    data["action"] = rng.integers(0, 3, (4, 5)).astype(np.int32)
    data["reward"] = np.where(data["action"] == 1, 1, 0).astype(np.float32)
    return data


def test_it_learns_reports_nothing_and_stores_nothing(agent):
    stream, carry, errors = agent.stream(Stateless(batch)), agent.init_train(4), []
    for _ in range(30):
        carry, outs, metrics = agent.train(carry, next(stream))
        errors += [metrics["error"]] if metrics else []
        assert outs == {}
    assert errors[-1] < 0.3 * errors[0]
    short = {key: value[:, :3] for key, value in next(stream).items()}
    assert agent.report(agent.init_report(4), short) == ((), {})
    assert agent.ext_space == {}
    assert agent.summary() == "net: 15"
    stream.close()


def test_what_it_learned_acts_elsewhere(agent, platform):
    other = InferenceAgent(Regression, OBS, ACT, CONFIG.update(seed=1), platform)
    other.load(agent.save())
    obs = {key: value[:2, 0] for key, value in batch().items() if key in OBS}
    for mode in ("deterministic", "train"):
        _, action, outs = other.policy(other.init_policy(2), obs, mode)
        assert action["action"].shape == (2,) and outs == {}
    _, expected, _ = agent.policy(agent.init_policy(2), obs, "deterministic")
    _, action, _ = other.policy(other.init_policy(2), obs, "deterministic")
    np.testing.assert_array_equal(action["action"], expected["action"])


def test_floats_of_another_width_are_cast(agent):
    stored = batch()
    stored["vector"] = stored["vector"].astype(jnp.bfloat16)
    stream = agent.stream(Stateless(lambda: stored))
    assert next(stream)["vector"].dtype == np.float32
    stream.close()


def test_a_batch_that_lacks_keys_is_refused(agent):
    stream = agent.stream(Stateless(lambda: {"vector": np.zeros((4, 5, 4), np.float32)}))
    with pytest.raises(KeyError, match="lacks the keys .*'reward'"):
        next(stream)
    stream.close()


def test_a_model_without_a_policy_cannot_be_made():
    class Unfinished(Regression):
        policy = Model.policy

    with pytest.raises(TypeError, match="policy"):
        Unfinished(OBS, ACT, CONFIG, "float32")
