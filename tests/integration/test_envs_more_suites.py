"""Suites that install from the package index, for real; skipped where they are not installed."""

import importlib

import numpy as np
import pytest

from embodied.envs import registry
from embodied.envs.check import check
from embodied.envs.errors import EnvError, UnknownOption, UnknownTask

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:tensorflow_probability")


def act(env, **values):
    action = {key: np.zeros(space.shape, space.dtype) for key, space in env.act_space.items()}
    return action | values


def rollout(task, options, seed, steps, index=0):
    """Observe under the same random actions; returns a list of observations."""
    env = registry.make(task, options, seed=seed, index=index)
    rng = np.random.default_rng(0)
    found, reset = [], True
    for _ in range(steps):
        action = {key: space.sample(rng) for key, space in env.act_space.items()}
        found.append(env.step({**action, "reset": np.bool_(reset)}))
        reset = bool(found[-1]["is_last"])
    env.close()
    return found


def assert_repeats_and_differs(task, key, steps=30):
    runs = [
        np.stack([obs[key] for obs in rollout(task, {}, 3, steps, index)]) for index in (0, 0, 1)
    ]
    assert (runs[0] == runs[1]).all()
    assert (runs[0] != runs[2]).any()


@pytest.mark.slow
def test_memory_maze():
    # Imported before with a backend that needs a display, as a user's script may do.
    pytest.importorskip("dm_control.suite")
    pytest.importorskip("memory_maze")
    env = registry.make("memmaze_9x9", {"size": (48, 48)})
    report = check(env, steps=40)
    env.close()
    assert report.violations == {}
    assert env.obs_space["image"].shape == (48, 48, 3)
    assert int(env.act_space["action"].high) == 6
    assert_repeats_and_differs("memmaze_9x9", "image", steps=5)
    with pytest.raises(EnvError, match="square"):
        registry.make("memmaze_9x9", {"size": (48, 64)})


@pytest.mark.slow
def test_langroom():
    pytest.importorskip("langroom")
    env = registry.make("langroom_answer-only", {"length": 20, "logs": True})
    report = check(env, steps=200)
    assert report.violations == {}
    assert set(report.lengths) == {20}
    assert report.terminals == 0
    assert "log/image" in report.ranges
    assert "log/image" not in registry.make("langroom_echo").obs_space
    assert_repeats_and_differs("langroom_echo", "image")


@pytest.mark.slow
def test_manipulation():
    manipulation = pytest.importorskip("dm_control.manipulation")
    from embodied.envs.manipulation import TASKS

    assert sorted(TASKS) == sorted(manipulation.ALL)
    env = registry.make("manipulation_reach_site_features", {"repeat": 5})
    report = check(env, steps=200)
    env.close()
    assert report.violations == {}
    assert set(report.lengths) == {50}
    assert report.terminals == 0
    task = "manipulation_reach_site_features"
    assert_repeats_and_differs(task, "jaco_arm_joints_pos", steps=5)


@pytest.mark.slow
def test_manipulation_by_camera():
    pytest.importorskip("dm_control")
    env = registry.make("manipulation_reach_site_vision", {"size": (48, 64)})
    report = check(env, steps=8)
    env.close()
    assert report.violations == {}
    assert env.obs_space["image"].shape == (48, 64, 3)
    assert report.ranges["image"].high > 100


def test_navix():
    pytest.importorskip("navix")
    env = registry.make("navix_Empty-5x5", {"length": 15})
    report = check(env, steps=100)
    assert report.violations == {}
    assert max(report.lengths) == 15
    assert report.terminals < len(report.lengths)
    left, right, forward = range(3)
    for _ in range(3):
        env.step(act(env, reset=np.bool_(True)))
        way = (forward, forward, right, forward, forward)
        obs = [env.step(act(env, action=np.int32(step))) for step in way]
        assert [float(x["reward"]) for x in obs] == [0, 0, 0, 0, 1]
        assert [bool(x["is_terminal"]) for x in obs] == [False] * 4 + [True]
        obs = [env.step(act(env, reset=np.bool_(i == 0), action=np.int32(left))) for i in range(16)]
        assert [bool(x["is_last"]) for x in obs] == [False] * 15 + [True]
        assert not obs[-1]["is_terminal"]
    picture = registry.make("navix_Navix-Empty-5x5-v0", {"view": "rgb", "size": (48, 64)})
    assert check(picture, steps=20).violations == {}
    assert picture.obs_space["image"].shape == (48, 64, 3)
    assert_repeats_and_differs("navix_Empty-Random-6x6", "vector")
    with pytest.raises(UnknownTask, match="Navix-Nothing-v0"):
        registry.make("navix_Nothing")
    with pytest.raises(UnknownOption, match="symbolic"):
        registry.make("navix_Empty-5x5", {"view": "smell"})


def test_old_gym_environments_by_id_and_with_four_values(tmp_path, monkeypatch):
    gym = pytest.importorskip("gym")

    class Old(gym.Env):
        observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
        action_space = gym.spaces.Discrete(3)

        def reset(self):
            self.count = 0
            return np.zeros(2, np.float32)

        def step(self, action):
            assert self.action_space.contains(action)
            self.count += 1
            info = {"TimeLimit.truncated": True} if self.count == 9 else {}
            return np.ones(2, np.float32), 1.0, self.count == 9, info

        def seed(self, value):
            self.seeded = value

    module = importlib.import_module("types").ModuleType("old_envs")
    module.Old = Old
    monkeypatch.setitem(importlib.import_module("sys").modules, "old_envs", module)
    report = check(registry.make("old_envs:Old"), steps=60)
    assert report.violations == {}
    assert set(report.lengths) == {9}
    assert report.terminals == 0
    # Versions from 0.26 return five values.
    report = check(registry.make("gym_MountainCarContinuous-v0"), steps=60)
    assert report.violations == {}
    with pytest.raises(UnknownTask, match="gym knows no environment 'CartPoleX-v1'"):
        registry.make("gym_CartPoleX-v1")
