"""Bad observations are rejected at the door, and nothing of them is stored."""

import functools

import numpy as np
import pytest

from embodied.core.driver import Driver
from embodied.core.interfaces import Env
from embodied.core.random_agent import RandomAgent
from embodied.core.replay.replay import Replay
from embodied.core.space import Space
from embodied.core.stepping.checked_env import WorkerError
from embodied.core.wrappers import CheckSpaces, RestartOnException
from embodied.envs.from_gymnasium import FromGymnasium

BAD_STEP = 7
FLAGS = {key: Space(bool) for key in ("is_first", "is_last", "is_terminal")}


class Sensor(Env):
    """Observes a bounded and an unbounded vector; at one step it returns something else."""

    def __init__(self, change=None):
        self.change, self.count, self.calls = change, 0, 0

    @property
    def obs_space(self):
        bounded = Space(np.float32, (2,), -1, 1)
        return {"bounded": bounded, "free": Space(np.float32, (3,)), "reward": Space("float32")} | (
            FLAGS
        )

    @property
    def act_space(self):
        return {"action": Space(np.int32, (), 0, 2), "reset": Space(bool)}

    def step(self, action):
        self.calls += 1
        self.count = 0 if action["reset"] else self.count + 1
        obs = {
            "bounded": np.full(2, 0.5, np.float32),
            "free": np.full(3, self.calls, np.float32),
            "reward": np.float32(0),
            "is_first": np.bool_(action["reset"]),
            "is_last": np.bool_(self.count == 10),
            "is_terminal": np.bool_(False),
        }
        return self.change(obs) if self.change and self.calls == BAD_STEP else obs


def put(key, value):
    return lambda obs: {**obs, key: value}


def drop(key):
    return lambda obs: {name: value for name, value in obs.items() if name != key}


BAD = {
    "NaN": (put("free", np.float32([1, np.nan, 3])), ["'free'", "got NaN at index (1,)"]),
    "infinite": (put("bounded", np.float32([0, np.inf])), ["'bounded'", "got inf", "[-1, 1]"]),
    "minus infinite": (put("bounded", np.float32([-np.inf, 0])), ["'bounded'", "got -inf"]),
    "infinite without bounds": (put("free", np.float32([np.inf, 0, 0])), ["'free'", "finite"]),
    "out of bounds": (put("bounded", np.float32([0, 2])), ["'bounded'", "got 2", "[-1, 1]"]),
    "shape": (put("free", np.zeros(4, np.float32)), ["'free'", "(3,)", "(4,)"]),
    "dtype": (put("free", np.zeros(3)), ["'free'", "float32", "float64"]),
    "missing": (drop("bounded"), ["'bounded'", "missing", "'free'"]),
    "extra": (put("velocity", np.float32(1)), ["'velocity'", "not declared"]),
    "object": (put("free", np.array([1, None, 2])), ["'free'", "float32", "object"]),
    "tuple": (lambda obs: (obs, {}), ["expected a dict", "tuple of length 2"]),
    "none": (lambda obs: None, ["expected a dict", "NoneType"]),
}


def run(constructors, steps=60):
    """Step with random actions into a replay; return it and the error, if there was one."""
    replay = Replay(4, 1000, seed=0)
    with Driver(constructors, parallel=False) as driver:
        act_space = {key: space for key, space in driver.act_space.items() if key != "reset"}
        agent = RandomAgent(driver.obs_space, act_space)
        driver.on_step(replay.add)
        driver.reset(agent.init_policy)
        try:
            driver(agent.policy, steps=steps)
        except WorkerError as error:
            return replay, error
    return replay, None


def assert_finite(replay):
    if len(replay):
        batch = replay.sample(64, "report")
        assert all(np.isfinite(v).all() for v in batch.values() if v.dtype.kind == "f")
        assert (np.abs(batch["bounded"]) <= 1).all()


@pytest.mark.parametrize("kind", BAD)
def test_the_first_occurrence_stops_the_run_with_worker_step_key_expected_and_got(kind):
    change, words = BAD[kind]
    makers = [Sensor, Sensor, functools.partial(Sensor, change), Sensor]
    replay, error = run(makers)
    assert (error.worker, error.step) == (2, BAD_STEP)
    assert "Env worker 2 failed at step 7" in str(error)
    for word in words:
        assert word in str(error)
    assert len(replay) > 0
    assert_finite(replay)


def test_values_at_a_bound_are_accepted_up_to_rounding():
    almost = np.nextafter(np.float32([1, -1]), np.float32([2, -2]))
    _, error = run([functools.partial(Sensor, put("bounded", almost))])
    assert error is None


def test_environments_restart_if_configured():
    change, _ = BAD["NaN"]
    restarted = []

    def make():
        restarted.append(True)
        return CheckSpaces(Sensor(change if len(restarted) == 1 else None))

    replay, error = run([lambda: RestartOnException(make, wait=0)])
    assert error is None
    assert len(restarted) == 2
    assert_finite(replay)


class Foreign:
    """A Gymnasium environment without its base class; at one step it returns something else."""

    def __init__(self, change=None, at_reset=False):
        gymnasium = pytest.importorskip("gymnasium")
        spaces = gymnasium.spaces
        vector = spaces.Box(-1, 1, (2,), np.float32)
        self.observation_space = spaces.Dict({"vector": vector, "kind": spaces.Discrete(3)})
        self.action_space = spaces.Discrete(2)
        self.change, self.at_reset, self.calls = change, at_reset, 0

    def observe(self, at_reset):
        self.calls += 1
        obs = {"vector": np.zeros(2, np.float32), "kind": np.int64(1)}
        now = self.calls == 1 if self.at_reset else self.calls == BAD_STEP
        return self.change(obs) if self.change and now else obs

    def reset(self, seed=None, options=None):
        return self.observe(True), {}

    def step(self, action):
        return self.observe(False), 0.0, False, False, {}

    def close(self):
        pass


FOREIGN_BAD = {
    "NaN": (put("vector", np.float32([np.nan, 0])), ["'vector'", "NaN"]),
    "out of bounds": (put("vector", np.float32([0, 3])), ["'vector'", "got 3"]),
    "class out of range": (put("kind", np.int64(3)), ["'kind'", "got 3"]),
    "huge class": (put("kind", np.int64(2**32)), ["'kind'", "4294967296"]),
    "shape": (put("vector", np.zeros(3, np.float32)), ["'vector'", "(2,)", "(3,)"]),
    "kind of type": (put("kind", np.float32(1)), ["'kind'", "int64", "float32"]),
    "object": (put("vector", np.array([None, 1])), ["'vector'", "object"]),
    "missing": (drop("kind"), ["'kind'", "expected the keys", "'vector'"]),
    "extra": (put("more", np.float32(1)), ["'more'", "expected the keys"]),
    "no dict": (lambda obs: obs["vector"], ["expected the keys", "ndarray"]),
}


@pytest.mark.parametrize("at_reset", [False, True])
@pytest.mark.parametrize("kind", FOREIGN_BAD)
def test_foreign_environments_are_checked_against_their_own_spaces(kind, at_reset):
    change, words = FOREIGN_BAD[kind]
    _, error = run([lambda: FromGymnasium(Foreign(change, at_reset))])
    assert error.step == (1 if at_reset else BAD_STEP)
    for word in words:
        assert word in str(error)


def test_reset_of_a_foreign_environment_that_returns_something_else():
    class Tuples(Foreign):
        def reset(self, seed=None, options=None):
            return self.observe(True), {}, {}

    _, error = run([lambda: FromGymnasium(Tuples())])
    assert error.step == 1
    assert "tuple of length 3" in str(error)
