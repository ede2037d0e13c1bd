import functools
import json
import subprocess
import sys

import cloudpickle
import numpy as np
import pytest

from dreamerv3.cli import factories
from dreamerv3.cli.presets import Presets
from embodied.core.random_agent import RandomAgent
from embodied.core.replay.selectors import Mixture, Uniform
from embodied.run.options import RunOptions


@pytest.fixture
def config(tmp_path):
    presets = Presets.load()
    changes = {
        "logdir": str(tmp_path),
        "batch_size": 3,
        "batch_length": 8,
        "report_length": 4,
        "env.dummy.length": 10,
        "env.dummy.size": [16, 24],
    }
    return presets.defaults.update(changes)


def fill(config, replay, steps):
    env = factories.make_env(config, 0)
    rng = np.random.default_rng(0)
    for index in range(steps):
        action = {key: space.sample(rng) for key, space in env.act_space.items()}
        action["reset"] = np.bool_(index == 0)
        obs = env.step(action)
        action.pop("reset")
        replay.add({**obs, **action})


def test_env_gets_its_options_and_wrappers(config):
    env = factories.make_env(config, 0)
    assert env.obs_space["image"].shape == (16, 24, 3)
    assert factories.make_env(config, 0, size=(8, 8)).obs_space["image"].shape == (8, 8, 3)
    action = {key: space.sample(np.random.default_rng(0)) for key, space in env.act_space.items()}
    action["act_cont"] = np.full(6, 5.0, np.float32)  # Out of range, as a policy's sample can be.
    action["reset"] = np.bool_(True)
    assert env.step(action)["is_first"]
    action["reset"] = np.bool_(False)
    assert not env.step(action)["is_first"]


def test_envs_of_a_run_differ_and_repeat(config):
    def first(config, index):
        env = factories.make_env(config, index)
        action = {k: np.zeros(v.shape, v.dtype) for k, v in env.act_space.items()}
        return env.step({**action, "reset": np.bool_(True)})["vector"]

    assert not np.array_equal(first(config, 0), first(config, 1))
    assert np.array_equal(first(config, 1), first(config, 1))
    assert not np.array_equal(first(config, 1), first(config.update(seed=1), 1))


def test_envs_are_made_without_jax(config, tmp_path):
    (tmp_path / "jax.py").write_text("raise ImportError('blocked')\n")
    maker = tmp_path / "maker.pkl"
    maker.write_bytes(cloudpickle.dumps(functools.partial(factories.make_env, config)))
    code = f"import cloudpickle; cloudpickle.load(open({str(maker)!r}, 'rb'))(2)"
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_random_agent_sees_only_what_agents_see(config):
    agent = factories.make_agent(config.update(random_agent=True))
    assert isinstance(agent, RandomAgent)
    assert "reset" not in agent.act_space
    assert not any(key.startswith("log/") for key in agent.obs_space)


def test_replay_and_streams(config):
    replay = factories.make_replay(config, "replay")
    assert replay.length == 9
    assert replay.capacity == 5_000_000
    assert factories.make_replay(config, "eval_replay", "eval").capacity == 500_000
    fill(config, replay, 30)
    assert len(replay) == 22
    train = next(factories.make_stream(config, replay, "train"))
    assert train["vector"].shape == (3, 9, 7)
    report = next(factories.make_stream(config, replay, "report"))
    assert report["vector"].shape == (3, 5, 7)


def test_resumed_replay_goes_on_where_it_stopped(config):
    replay = factories.make_replay(config, "replay")
    fill(config, replay, 30)
    state = replay.save()
    resumed = factories.make_replay(config, "replay")
    resumed.load(state)
    assert len(resumed) == 22
    fill(config, resumed, 5)
    assert len(resumed) == 27


def test_consecutive_chunks(config):
    config = config.update({"consec_train": 2, "consec_report": 2, "replay_context": 2})
    replay = factories.make_replay(config, "replay")
    assert replay.length == 18
    fill(config, replay, 40)
    for mode, length in (("train", 8), ("report", 4)):
        stream = factories.make_stream(config, replay, mode)
        chunks = [next(stream) for _ in range(2)]
        for index, chunk in enumerate(chunks):
            assert chunk["vector"].shape == (3, length + 2, 7)
            assert (chunk["consec"] == index).all()
        np.testing.assert_array_equal(chunks[0]["vector"][:, length:], chunks[1]["vector"][:, :2])


def test_selectors(config):
    assert isinstance(factories.make_selector(config), Uniform)
    fracs = {"replay.fracs": {"uniform": 0.5, "priority": 0.3, "recency": 0.2}}
    mixed = config.update(fracs)
    assert isinstance(factories.make_selector(mixed), Mixture)
    replay = factories.make_replay(mixed, "replay")
    fill(mixed, replay, 30)
    assert replay.sample(5)["vector"].shape == (5, 9, 7)


def test_replay_follows_the_seed(config):
    def draw(config):
        replay = factories.make_replay(config.update({"replay.online": False}), "replay")
        fill(config.update(seed=0), replay, 200)
        return replay.sample(20)["count"]

    assert np.array_equal(draw(config), draw(config))
    assert not np.array_equal(draw(config), draw(config.update(seed=1)))


def test_logger_counts_frames(config, tmp_path):
    config = config.update({"task": "dmc_walker_walk", "env.dmc.repeat": 2})
    logger = factories.make_logger(config)
    logger.step.increment(5)
    logger.add({"episode/score": 3.0, "train/loss/dyn": 1.0})
    logger.close()
    (line,) = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line) == {"step": 10, "episode/score": 3.0, "train/loss/dyn": 1.0}
    (line,) = (tmp_path / "scores.jsonl").read_text().splitlines()
    assert json.loads(line) == {"step": 10, "episode/score": 3.0}
    assert (tmp_path / "scope").is_dir()
    with pytest.raises(ValueError, match="'csv'"):
        factories.make_logger(config.update({"logger.outputs": ["csv"]}))


def test_arguments_of_the_loop(config):
    args = factories.make_options(config)
    assert args.steps == config.run.steps
    assert (args.batch_size, args.logdir, args.timer) == (3, config.logdir, True)


def test_defaults_of_run_options_are_those_of_the_configuration():
    defaults = factories.make_options(Presets.load().defaults)
    assert RunOptions(defaults.logdir) == defaults
