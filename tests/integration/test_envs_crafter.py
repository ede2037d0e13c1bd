"""Crafter for real."""

import numpy as np
import pytest

from embodied.envs import registry
from embodied.envs.check import check

pytest.importorskip("crafter")

NOOP, DO = 0, 5


def play(env, steps, seed=0):
    rng = np.random.default_rng(seed)
    actions = rng.integers(17, size=steps, dtype=np.int32)
    return [env.step({"action": x, "reset": step == 0}) for step, x in enumerate(actions)]


@pytest.mark.slow
def test_contract():
    assert check(registry.make("crafter_reward", {"logs": True}), steps=200).violations == {}


@pytest.mark.slow
def test_picture_and_actions():
    env = registry.make("crafter_reward", {"size": (60, 96)})
    assert env.act_space["action"].classes == 17
    obs = play(env, 3)[-1]
    assert obs["image"].shape == (60, 96, 3)
    assert obs["image"].std() > 5


@pytest.mark.slow
def test_time_limit_is_not_terminal_and_death_is():
    env = registry.make("crafter_reward", {"length": 10})
    for _ in range(2):
        obs = play(env, 11)
        assert [step for step, x in enumerate(obs) if x["is_last"]] == [10]
        assert not obs[-1]["is_terminal"]
    env = registry.make("crafter_reward", {"size": (18, 18)})
    obs = play(env, 1)
    env._env._player.health = 0
    obs = env.step({"action": np.int32(NOOP), "reset": False})
    assert obs["is_last"]
    assert obs["is_terminal"]
    assert obs["reward"] < 0


@pytest.mark.slow
def test_achievements_are_counted_and_paid():
    options = {"logs": True, "size": (18, 18)}
    envs = [registry.make(f"crafter_{task}", options) for task in ("reward", "noreward")]
    first, second = (play(env, 1)[0] for env in envs)
    keys = [key for key in first if key.startswith("log/achievement_")]
    assert len(keys) == 22
    assert all(first[key] == 0 for key in keys)
    found = []
    for env in envs:
        player = env._env._player
        env._env._world[player.pos + np.array(player.facing)] = "tree"
        found.append(env.step({"action": np.int32(DO), "reset": False}))
    first, second = found
    assert first["log/achievement_collect_wood"] == 1
    assert sum(int(first[key]) for key in keys) == 1
    assert first["reward"] == 1
    assert second["reward"] == 0
    assert second["log/reward"] == 1


@pytest.mark.slow
def test_worlds_follow_the_seed():
    def first(seed):
        return play(registry.make("crafter_reward", seed=seed), 1)[0]["image"]

    one = first(1)
    assert (one == first(1)).all()
    env = registry.make("crafter_reward", seed=2)
    two = play(env, 1)[0]["image"]
    assert (one != two).any()
    assert (two != play(env, 1)[0]["image"]).any()
