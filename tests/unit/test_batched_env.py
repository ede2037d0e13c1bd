"""Environments that step many instances at once: driver, registry, seeds, Gymnasium vectors."""

import functools
import sys
import textwrap

import numpy as np
import pytest

from dreamerv3.cli.factories import EnvMaker, make_spaces
from dreamerv3.cli.presets import Presets
from embodied.core.batched_env import BatchedEnv, env_constructors
from embodied.core.config import Config
from embodied.core.driver import Driver
from embodied.core.random_agent import RandomAgent
from embodied.core.space import Space
from embodied.core.stepping.checked_env import WorkerError
from embodied.envs import registry
from embodied.envs.check import check, main
from embodied.envs.errors import EnvError

SIZE = 3


class Counters(BatchedEnv):
    """Instance i has episodes of i + 2 steps and observes the step and the last action."""

    def __init__(self, num_envs=SIZE, seeds=None, change=None):
        self.num_envs, self.change = num_envs, change
        self.offset = np.array(seeds if seeds is not None else [0] * num_envs, np.int64)
        self.count = np.zeros(num_envs, np.int32)
        self.calls = self.closed = 0

    @property
    def batch_size(self):
        return self.num_envs

    @property
    def obs_space(self):
        flags = {key: Space(bool) for key in ("is_first", "is_last", "is_terminal")}
        echo = Space(np.float32, (2,), -2, 2)
        return {"count": Space(np.int32, (), 0, 100), "echo": echo, **flags} | {
            "reward": Space(np.float32),
            "seed": Space(np.float32),
            "log/count": Space(np.float32),
        }

    @property
    def act_space(self):
        return {"action": Space(np.float32, (2,), -2, 2), "reset": Space(bool)}

    def step(self, action):
        self.calls += 1
        reset = action["reset"]
        self.count = np.where(reset, 0, self.count + 1).astype(np.int32)
        echo = np.where(reset[:, None], 0, action["action"])
        last = self.count == np.arange(self.num_envs) + 2
        obs = {
            "count": self.count.copy(),
            "echo": echo,
            "reward": self.count.astype(np.float32),
            "is_first": reset.copy(),
            "is_last": last,
            "is_terminal": last & (np.arange(self.num_envs) == 0),
            "seed": (self.offset % 1000).astype(np.float32),
            "log/count": self.count.astype(np.float32),
        }
        action["action"][:] = 9  # It owns what it gets.
        return self.change(obs) if self.change and self.calls == 4 else obs

    def close(self):
        self.closed += 1


def drive(env_or_makers, steps, act=0.5):
    streams = {}

    def policy(carry, obs):
        assert "log/count" not in obs
        return carry, {"action": np.full((len(obs["is_first"]), 2), act, np.float32)}, {}

    with Driver(env_or_makers, parallel=False) as driver:
        driver.on_step(lambda tran, worker: streams.setdefault(worker, []).append(tran))
        driver(policy, steps=steps)
        size = len(driver)
    assert sorted(streams) == list(range(size))
    return streams


def test_the_driver_steps_a_batch_without_processes():
    env = Counters()
    streams = drive(lambda: env, 24)
    assert env.calls == 8
    assert env.closed == 1
    for worker, stream in streams.items():
        length = worker + 3
        assert [int(x["count"]) for x in stream] == [i % length for i in range(8)]
        assert [float(x["log/count"]) for x in stream] == [i % length for i in range(8)]
        for step, tran in enumerate(stream):
            assert bool(tran["is_first"]) == (step % length == 0)
            assert bool(tran["is_last"]) == (step % length == length - 1)
            assert bool(tran["is_terminal"]) == (bool(tran["is_last"]) and worker == 0)
            assert tran["echo"].tolist() == ([0, 0] if tran["is_first"] else [0.5, 0.5])
            assert tran["action"].tolist() == ([0, 0] if tran["is_last"] else [0.5, 0.5])


def put(key, index, value):
    def change(obs):
        array = obs[key].copy()
        array[index] = value
        return {**obs, key: array}

    return change


@pytest.mark.parametrize(
    ("change", "worker", "words"),
    [
        (put("echo", 1, np.nan), 1, "'echo'.*NaN"),
        (put("count", 2, 100), 2, "'count'.*got 100"),
        (lambda obs: {**obs, "echo": obs["echo"][:2]}, 0, r"'echo'.*\(3, 2\).*\(2, 2\)"),
        (lambda obs: {k: v for k, v in obs.items() if k != "count"}, 0, "'count' is missing"),
        (lambda obs: {**obs, "more": obs["count"]}, 0, "'more'.*not declared"),
        (lambda obs: {**obs, "is_first": obs["is_first"] & False}, 0, "'is_first'.*index 0"),
        (lambda obs: 1 / 0, 0, "ZeroDivisionError"),
    ],
)
def test_bad_observations_name_the_instance(change, worker, words):
    env = Counters(change=change)
    with pytest.raises(WorkerError, match=words) as error:
        drive(lambda: env, 30)
    assert (error.value.worker, error.value.step) == (worker, 4)
    assert env.closed == 1


def test_what_is_no_batch_is_refused():
    with pytest.raises(WorkerError, match="batch_size 0"):
        Driver(lambda: Counters(0))
    with pytest.raises(WorkerError, match="expected a BatchedEnv"):
        Driver(lambda: registry.make("dummy_disc"))


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A user's module in the current directory with two kinds of batches."""
    text = """
        import gymnasium
        from test_batched_env import Counters

        def vector(num_envs, gravity=10.0):
            return gymnasium.make_vec("Pendulum-v1", num_envs, g=gravity)

        def wrong(num_envs):
            return gymnasium.make("Pendulum-v1")
    """
    name = f"batches_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield name
    sys.modules.pop(name, None)


def config_of(task, **options):
    config = Presets.load().defaults.update({"task": task})
    return config.update(options)


def first_observations(config, envs=SIZE):
    constructor = env_constructors(EnvMaker(config), envs)
    with Driver(constructor) as driver:
        seen = []
        agent = RandomAgent(driver.obs_space, {"action": driver.act_space["action"]})
        driver.on_step(lambda tran, worker: seen.append(tran))
        driver.reset(agent.init_policy)
        driver(agent.policy, steps=envs)
        return seen


def test_import_path_with_seeds_per_instance(module):
    pytest.importorskip("gymnasium")
    task = f"{module}:Counters"
    assert registry.is_batched(task)
    assert not registry.is_batched(task, {"num_envs": 2})
    assert not registry.is_batched("dummy_disc")
    first = [float(x["seed"]) for x in first_observations(config_of(task))]
    assert len(set(first)) == SIZE
    assert first == [float(x["seed"]) for x in first_observations(config_of(task))]
    other = [float(x["seed"]) for x in first_observations(config_of(task, seed=1))]
    assert not set(first) & set(other)
    # A single instance is used like any other environment, and gets the seed of its index.
    env = EnvMaker(config_of(task))(1)
    obs = env.step({"action": np.zeros(2, np.float32), "reset": np.bool_(True)})
    assert float(obs["seed"]) == first[1]
    assert env.act_space["action"] == Space(np.float32, (2,), -1, 1)
    assert check(env, steps=30).violations == {}


def test_vectors_of_gymnasium_by_import_path(module):
    pytest.importorskip("gymnasium")
    config = config_of(f"{module}:vector")
    first = np.stack([x["vector"] for x in first_observations(config)])
    assert len(np.unique(first, axis=0)) == SIZE
    assert (first == np.stack([x["vector"] for x in first_observations(config)])).all()
    # The same seeds as those of single environments.
    single = registry.make("gymnasium_Pendulum-v1", index=1)
    obs = single.step({"action": np.zeros(1, np.float32), "reset": np.bool_(True)})
    assert (obs["vector"] == first[1]).all()
    with pytest.raises(EnvError, match="expected a BatchedEnv or a gymnasium"):
        registry.make_batch(f"{module}:wrong", {}, 2)


@pytest.mark.parametrize("mode", [None, "sync"])
def test_make_vec_gives_what_single_environments_give(mode):
    pytest.importorskip("gymnasium")
    options = {"vector": True, "max_episode_steps": 30, "vectorization_mode": mode}
    assert registry.is_batched("gymnasium_CartPole-v1", options)
    makers = [
        lambda i=i: registry.make("gymnasium_CartPole-v1", {"max_episode_steps": 30}, index=i)
        for i in range(SIZE)
    ]

    def policy(carry, obs):
        return carry, {"action": (obs["vector"][:, 2] > 0).astype(np.int32)}, {}

    def run(constructors):
        streams = [[] for _ in range(SIZE)]
        with Driver(constructors, parallel=False) as driver:
            driver.on_step(lambda tran, worker: streams[worker].append(tran))
            driver(policy, steps=SIZE * 100)
        return streams

    make = functools.partial(registry.make_batch, "gymnasium_CartPole-v1", options, SIZE)
    for ours, theirs in zip(run(make), run(makers), strict=True):
        assert {x["is_last"].item() for x in ours} == {False, True}
        if mode == "sync":  # The other computes with all instances as one array.
            for key in ("vector", "reward", "is_first", "is_last", "is_terminal"):
                assert np.array_equal([x[key] for x in ours], [x[key] for x in theirs]), key
    single = registry.make("gymnasium_CartPole-v1", options)
    # It cannot be reset at any time unless it is alone, as here.
    assert check(single, steps=100).violations == {}
    single.close()


def test_a_vector_environment_cannot_reset_single_instances():
    pytest.importorskip("gymnasium")
    env = registry.make_batch("gymnasium_CartPole-v1", {"vector": True}, 2)
    zeros = np.zeros(2, np.int32)
    env.step({"action": zeros, "reset": np.array([True, True])})
    with pytest.raises(EnvError, match="either all instances or those that have ended"):
        env.step({"action": zeros, "reset": np.array([True, False])})


@pytest.mark.filterwarnings("ignore:.*Casting input x")
def test_nested_spaces_with_a_leading_dimension():
    gymnasium = pytest.importorskip("gymnasium")
    from test_envs_from_gymnasium import Echo

    from embodied.envs.from_gymnasium_vector import FromGymnasiumVector

    inner = gymnasium.vector.SyncVectorEnv([Echo, Echo])
    env = FromGymnasiumVector(inner, seeds=[3, 4])
    rng = np.random.default_rng(0)
    with Driver(lambda: env) as driver:

        def policy(carry, obs):
            space = env.act_space
            acts = {k: np.stack([x.sample(rng), x.sample(rng)]) for k, x in space.items()}
            return carry, {k: x for k, x in acts.items() if k != "reset"}, {}

        driver(policy, steps=100)  # The environment itself checks every action.
        assert len(inner.envs[0].actions) == 41
        assert inner.envs[0].seeds[0] == 3


SAME_STEP = ["SameStep", "same_step", "SAME-STEP", "AutoresetMode.SAME_STEP", "Disabled"]


@pytest.mark.parametrize("mode", SAME_STEP)
def test_other_reset_modes_are_refused_in_any_spelling(mode):
    gymnasium = pytest.importorskip("gymnasium")
    from embodied.envs.from_gymnasium_vector import FromGymnasiumVector

    inner = gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync")
    for declared in (mode, gymnasium.vector.AutoresetMode.SAME_STEP):
        inner.metadata = {"autoreset_mode": declared}
        with pytest.raises(EnvError, match="expected the autoreset mode NextStep"):
            FromGymnasiumVector(inner)
    for declared in ("NextStep", "next_step", gymnasium.vector.AutoresetMode.NEXT_STEP):
        inner.metadata = {"autoreset_mode": declared}
        assert FromGymnasiumVector(inner).batch_size == 2


@pytest.mark.parametrize(("infos", "found"), [(True, "info 'final_obs'"), (False, "a reward in")])
def test_resets_in_the_same_step_are_noticed_where_they_are_not_declared(infos, found):
    gymnasium = pytest.importorskip("gymnasium")
    from embodied.envs.from_gymnasium_vector import FromGymnasiumVector

    class Undeclared(gymnasium.vector.VectorWrapper):
        def step(self, action):
            *result, info = super().step(action)
            return (*result, info if infos else {})

    make = functools.partial(gymnasium.make, "CartPole-v1")
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    inner = Undeclared(gymnasium.vector.SyncVectorEnv([make] * SIZE, autoreset_mode=mode))
    inner.metadata = {}
    report = check(FromGymnasiumVector(inner), 100)
    assert report.instances == SIZE
    assert found in report.violations["exception EnvError"][2]


def test_the_check_looks_at_each_instance():
    assert check(Counters(), 40).violations == {}
    report = check(Counters(change=put("echo", 1, np.nan)), 40)
    assert list(report.violations) == ["echo value"]
    assert "steps 40 of 3 instances" in report.text()
    report = check(Counters(change=lambda obs: {**obs, "echo": obs["echo"][:2]}), 40)
    assert "expected 3 instances in front, got shape (2, 2)" in report.text()


def test_the_command_checks_several_instances(capsys):
    pytest.importorskip("gymnasium")
    assert main(["gymnasium_CartPole-v1", "--vector", "true", "--steps", "60"]) == 0
    assert "of 3 instances" in capsys.readouterr().out


def test_a_single_instance_keeps_the_notes_on_its_observations():
    pytest.importorskip("gymnasium")
    env = registry.make("gymnasium_Taxi-v4", {"vector": True, "max_classes": 100})
    assert [note[:33] for note in env.notes] == ["Observation 'vector' has 500 clas"]
    config = config_of("gymnasium_Taxi-v4")
    config = Config({**config.flat, "env.gymnasium.vector": True, "env.gymnasium.max_classes": 100})
    said = []
    make_spaces(config, said.append)
    assert said == env.notes
