"""Environments, replay, policy and updates in one program, with a model of a few parameters."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ondevice_model import CHUNK, WORLDS, Runner, Tiny

from embodied.core.config import ConfigError
from embodied.core.nonfinite import NonFiniteError
from embodied.core.space import Space
from embodied.envs.pure import toy
from embodied.jax.ondevice.evaluation import Evaluation, evaluate
from embodied.jax.ondevice.memory import Need
from embodied.jax.ondevice.spread import Spread
from embodied.jax.pure_env import bounded
from embodied.run.episodes import EpisodeLogger

SEEDS = (3, 4, 5)


@pytest.fixture(scope="module")
def single():
    return Runner(SEEDS[:1])


@pytest.fixture(scope="module")
def several():
    return Runner(SEEDS)


def assert_equal(found, expected):
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def test_lengths_of_chunks_make_no_difference(single):
    single.restart()
    single.run(16, 16)
    whole = single.state
    assert whole[0].updates > 10
    single.restart()
    single.run(7, 9, 1, 15)
    assert_equal(single.state, whole)


def test_continuing_from_what_was_saved_is_exact_also_with_another_capacity(single):
    single.restart()
    single.run(16)
    saved, plan = single.program.save(), single.plan.save()
    single.run(12)
    expected = single.state
    single.restart()
    single.program.load(saved)
    single.plan.load(plan)
    single.n = 16
    single.run(12)
    assert_equal(single.state, expected)
    # All steps are still there, so that a larger ring gives the same draws.
    assert saved[0]["ondevice"]["ring"]["reward"].shape == (WORLDS, 16)
    larger = Runner(SEEDS[:1], capacity=75)
    larger.program.load(saved)
    larger.plan.load(plan)
    larger.n = 16
    larger.run(4)
    single.restart()
    single.program.load(saved)
    single.plan.load(plan)
    single.n = 16
    single.run(4)
    assert_equal(larger.state[1].params, single.state[1].params)


def test_what_was_saved_with_other_environments_is_refused(single):
    saved = Runner(SEEDS[:1]).program.save()
    saved[0]["ondevice"]["ring"] = {
        key: rows[:2] for key, rows in saved[0]["ondevice"]["ring"].items()
    }
    with pytest.raises(ConfigError, match="does not fit: stored steps"):
        single.program.load(saved)
    saved[0]["agent"]["params"] = {}
    with pytest.raises(ConfigError, match=r"does not fit: 'net/bias' is nothing, expected \[3\]"):
        single.program.load(saved)


@pytest.mark.slow
def test_seeds_side_by_side_are_those_that_run_alone(single, several):
    single.restart()
    several.restart()
    single.run(16, 5)
    alone = single.state
    several.run(16, 5)
    together = several.state
    assert_equal(together[0], alone[0])
    for found, expected in zip(
        jax.tree.leaves(together[1]), jax.tree.leaves(alone[1]), strict=True
    ):
        np.testing.assert_allclose(found[:1], expected, rtol=1e-5, atol=1e-6)
    params = together[1].params["net/kernel"]
    assert (params[0] != params[1]).any() and (params[1] != params[2]).any()
    several.restart()
    several.run(16, 5)
    assert_equal(several.state, together)


def test_a_report_has_no_influence(several):
    several.restart()
    several.run(16)
    before = several.state
    reports = several.program.report()
    assert [report["data"].shape for report in reports] == [(4, 4)] * 3
    assert len({float(report["error"]) for report in reports}) == 3
    assert_equal(several.state, before)
    assert several.program.report()[0]["error"] != reports[0]["error"]


def test_episodes_are_those_that_the_host_would_count():
    large = Runner(SEEDS[:1], capacity=1000)
    found = [
        (first * CHUNK + episode.iteration, episode)
        for first, [result] in enumerate(large.run(*[CHUNK] * 8))
        for episode in result.episodes
    ]
    assert len(found) > 3
    ring = jax.tree.map(lambda x: x[0], large.state[1].ring)
    host = EpisodeLogger(None)
    expected = []
    for n in range(8 * CHUNK):
        for world in range(WORLDS):
            step = {key: x[world, n] for key, x in ring.items()}
            ended = host.add(step, world)
            expected += [(n, ended)] if ended else []
    assert len(expected) == len(found)
    for (n, episode), (m, ended) in zip(found, expected, strict=True):
        assert (n, episode.world) == (m, ended.worker)
        assert (episode.score, episode.steps - 1) == (ended.score, ended.length)
        assert episode.logs["log/success"] == (episode.steps, ended.score, ended.score)
        assert episode.changes == int(ended.score > 0)


@pytest.mark.slow
def test_memory_besides_the_replay_does_not_grow_with_it():
    def temporary(runner):
        program = runner.program
        arguments = program._arguments(runner.plan.plan(0, 0, CHUNK), 0)
        chunk = jax.jit(program._spread(program._run_chunk, True), donate_argnums=1)
        return chunk.lower(*arguments).compile().memory_analysis().temp_size_in_bytes

    assert temporary(Runner(SEEDS[:1], capacity=600)) == temporary(Runner(SEEDS[:1], capacity=6000))


class Push:
    """Shows what it is told."""

    def __init__(self):
        zero = Space(np.int32, (2,), 0, 5)
        self.obs_space = {"position": zero, "heading": zero, "log/sent": Space(np.float32)}
        self.obs_space["heading"] = Space(np.int32, (), 0, 4)
        self.act_space = {"action": Space(np.float32, (), -1, 1)}

    def reset(self, key):
        return jnp.int32(0), self.show(0.0)

    def step(self, state, action, key):
        over = state >= 3
        flags = {"reward": action["action"], "is_last": over, "is_terminal": over}
        return state + 1, {**self.show(action["action"]), **flags}

    def show(self, sent):
        zero = jnp.zeros((), jnp.int32)
        return {"position": jnp.stack([zero, zero]), "heading": zero, "log/sent": sent}


class Three(Tiny):
    """Always pushes with 3, and learns nothing."""

    def policy(self, carry, obs, deterministic=False):
        size = len(obs["is_first"])
        return carry, {"action": jnp.full(size, 3.0)}, {"latent": jnp.zeros((size, 3))}

    def train(self, carry, data):
        self.updates.read()
        return carry, {}, {}


@pytest.mark.slow
def test_an_evaluation_runs_whole_episodes_apart_from_training(several):
    several.restart()
    several.run(16)
    before = several.state
    found = several.program.evaluate()
    assert_equal(several.state, before)
    for result in found:
        assert not result["partial"].any()
        ended_early = result["length"] < toy.Grid.limit
        assert (result["score"][ended_early] == 1).all()
        assert (result["length"] <= toy.Grid.limit).all()
    assert_equal(several.program.evaluate(), found)


def test_an_evaluation_cuts_long_episodes_off():
    env, key = bounded(Push()), np.zeros(2, np.uint32)
    model = Three({}, env.act_space, None, "float32")
    run = jax.jit(partial(evaluate, model, env, {}, key), static_argnums=0)
    whole, cut = (run(Evaluation(2, limit, deterministic=True)) for limit in (0, 2))
    assert (whole["score"].tolist(), whole["length"].tolist()) == ([4, 4], [4, 4])
    assert (cut["score"].tolist(), cut["length"].tolist()) == ([2, 2], [2, 2])
    assert not whole["partial"].any() and cut["partial"].all()


def test_actions_are_stored_as_chosen_and_sent_within_bounds_and_zero_at_the_end():
    runner = Runner(env=bounded(Push()), model=Three, ratio=0)
    [result] = runner.run(10)[0]
    ring = runner.state[1].ring
    last = ring["is_last"][0, 0, :10]
    assert last.tolist() == [False, False, False, False, True] * 2
    assert ring["action"][0, 0, :10].tolist() == [0 if end else 3 for end in last]
    # The rewards are what was sent: 4 steps of an episode have followed an action.
    assert ring["reward"][0, 0, :6].tolist() == [0, 1, 1, 1, 1, 0]
    assert ring["is_first"][0, 0, :10].tolist() == [True, *[False] * 4] * 2
    assert [episode.score for episode in result.episodes] == [4] * 6
    assert result.updates == 0


@pytest.mark.slow
def test_an_update_that_is_not_finite_ends_the_run_or_is_left_out():
    runner = Runner(SEEDS[:2], breaks=3)
    with pytest.raises(
        NonFiniteError, match=r"Update 3 .*'loss/reward'.*seed 3.*run\.nonfinite skip"
    ):
        runner.run(16)
    runner = Runner(SEEDS[:2], breaks=3, nonfinite="skip")
    # It is taken back, count and all, so that the next one fails as well, and so on.
    [first, second] = runner.run(16)[0]
    assert (first.updates, first.skipped) == (2, int(runner.plan.made) - 2)
    assert np.isfinite(first.sums["loss/reward"])
    assert runner.program.save()[1]["agent"]["counters"]["skipped"] == second.skipped


def test_what_does_not_fit_the_memory_is_refused_with_the_arithmetic(single):
    shape = single.program._shape._replace(rows=10**9, capacity=3 * 10**9)
    need = Need(shape, step_bytes=100, param_bytes=1000, seeds=2)
    text = (
        "Got replay.size=3,000,000,000: 3 environments x 1,000,000,000 positions x 100 bytes per "
        "step = 300 GB per seed, with the state of the agent 600 GB for 2 on a device"
    )
    with pytest.raises(ConfigError, match=re.escape(text)):
        need.check(jax.devices()[0])


def test_seeds_that_devices_cannot_share_are_refused():
    with pytest.raises(ConfigError, match=r"ondevice\.seeds=3 for 2 jax\.train_devices"):
        Spread(3, jax.devices() * 2)


def test_parameters_of_another_run_are_taken_by_all_seeds(several):
    several.restart()
    agent = several.program.save()[2]["agent"]
    several.program.load_params(agent, "^net/")
    kernels = several.state[1].params["net/kernel"]
    assert (kernels == agent["params"]["net/kernel"]).all()
    with pytest.raises(ConfigError, match="nothing matches"):
        several.program.load_params(agent, "^none/")
    assert several.program.summary() == "net: 12\nupdates: 1"
