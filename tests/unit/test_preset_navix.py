"""The preset navix has the settings of the agent of that package, as far as they are published."""

import jax.numpy as jnp
import numpy as np
import pytest

from dreamerv3.agent import Dreamer
from dreamerv3.cli import command_line
from dreamerv3.cli.factories import agent_config, make_options
from embodied.core.schedule import UpdatePlan
from embodied.core.space import Space
from embodied.jax import nj

OBS = {
    "vector": Space(np.int32, (25, 3), 0, 12),
    "reward": Space(np.float32),
    **{key: Space(bool) for key in ("is_first", "is_last", "is_terminal")},
}
ACT = {"action": Space(np.int32, (), 0, 7)}


@pytest.fixture(scope="module")
def config():
    flags = ["--configs", "navix", "--task", "jaxtoy_grid", "--logdir", "/nowhere"]
    return command_line.parse(flags).config


def test_latents_kl_terms_and_bins(config):
    agent = config.agent
    rssm = agent.dyn.rssm
    assert (rssm.stoch, rssm.classes, rssm.unimix) == (8, 8, 0.01)
    assert rssm.deter == rssm.hidden == 200
    assert {
        part.units for part in (agent.enc.simple, agent.dec.simple, agent.policy, agent.value)
    } == {200}
    assert rssm.free_nats == 1.0
    assert agent.loss_scales.dyn > 0 and agent.loss_scales.rep > 0
    assert (agent.rewhead.output, agent.rewhead.bins) == ("symexp_twohot", 41)
    assert (agent.value.output, agent.value.bins) == ("symexp_twohot", 41)


def test_inputs_are_squashed_and_grids_are_classes(config):
    assert config.agent.enc.simple.symlog
    assert not config.agent.enc.simple.symlog_ints


def test_returns_are_scaled_by_a_range_of_percentiles(config):
    norm = config.agent.retnorm
    assert (norm.impl, norm.perclo, norm.perchi, norm.limit) == ("perc", 5.0, 95.0, 1.0)
    assert config.agent.horizon == 100
    assert 1 - 1 / config.agent.horizon == 0.99


def test_updates_and_capacity(config):
    assert config.batch_size * config.batch_length == 64 * 32
    assert config.run.envs == 16
    rate = make_options(config).updates_per_step
    assert rate * 16 * 128 == 128
    plan = UpdatePlan(rate, 64 * 32, 16, config.batch_length + config.replay_context, 500_000)
    updates, _ = plan.plan(0, 161, 161)
    assert np.flatnonzero(updates)[0] * 16 + 16 == 2560
    assert updates[160] == 1
    assert config.replay.size == 500_000
    assert config.run.steps == 100_000


def test_every_action_has_a_least_probability(config):
    agent = config.agent
    assert agent.policy_unimix
    assert agent.policy.unimix == 0.05
    # One head acts, imagines and is trained.
    model = Dreamer(OBS, ACT, agent_config(config))
    features = jnp.zeros((1, 200 + 64))
    params = dict(nj.init(model.pol)({}, features, seed=0))
    params["pol/head/action/logits/bias"] = jnp.array([50.0, 0, 0, 0, 0, 0, 0])
    params["pol/head/action/logits/kernel"] *= 0
    dist = nj.pure(model.pol)(params, features)[1]["action"]
    assert float(jnp.exp(dist.logp(jnp.array([3]))[0])) == pytest.approx(0.05 / 7, rel=1e-3)
    assert float(jnp.exp(dist.logp(jnp.array([0]))[0])) == pytest.approx(0.95 + 0.05 / 7, rel=1e-3)
