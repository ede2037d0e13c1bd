"""The dummy and the toy environments."""

import numpy as np
import pytest

from embodied.envs.catch import BASKET, FRUIT, Catch
from embodied.envs.check import check
from embodied.envs.dummy import Dummy
from embodied.envs.errors import UnknownTask
from embodied.envs.toy import HIDDEN, QUESTION, TASKS, Toy


def play(env, choose, episodes):
    """Mean return of a policy that maps the observations of the episode so far to an action."""
    returns = []
    for _ in range(episodes):
        seen = [env.step({"action": 0, "reset": True})]
        while not seen[-1]["is_last"]:
            seen.append(env.step({"action": choose(seen), "reset": False}))
        assert len(seen) == env.length + 1
        assert seen[-1]["is_terminal"]
        returns.append(sum(float(obs["reward"]) for obs in seen))
    return np.mean(returns)


def test_dummy_spaces_are_those_behind_the_public_metric_names():
    env = Dummy("disc", size=(16, 24), length=10)
    shapes = {key: (str(space.dtype), space.shape) for key, space in env.obs_space.items()}
    assert shapes.pop("image") == ("uint8", (16, 24, 3))
    assert {key: (kind, len(shape)) for key, (kind, shape) in shapes.items()} == {
        "vector": ("float32", 1),
        "token": ("int32", 0),
        "count": ("float32", 0),
        "float2d": ("float32", 2),
        "int2d": ("int32", 2),
        "reward": ("float32", 0),
        "is_first": ("bool", 0),
        "is_last": ("bool", 0),
        "is_terminal": ("bool", 0),
    }
    assert sorted(env.act_space) == ["act_cont", "act_disc", "reset"]
    assert env.act_space["act_disc"].discrete
    assert not env.act_space["act_cont"].discrete


def test_dummy_counts_steps_and_ends():
    env = Dummy("cont", size=(4, 4), length=3)
    action = {key: space.sample(np.random.default_rng(0)) for key, space in env.act_space.items()}
    for _ in range(2):
        obs = [env.step({**action, "reset": step == 0}) for step in range(4)]
        assert [float(x["count"]) for x in obs] == [0, 1, 2, 3]
        assert [float(x["reward"]) for x in obs] == [0, 1, 1, 1]
        assert [bool(x["is_first"]) for x in obs] == [True, False, False, False]
        assert [bool(x["is_last"]) for x in obs] == [False, False, False, True]
        assert [bool(x["is_terminal"]) for x in obs] == [False, False, False, True]
        assert [int(x["image"].max()) for x in obs] == [0, 1, 2, 3]


def test_dummy_reset_in_the_middle():
    env = Dummy(length=10)
    assert [float(env.step({"reset": r})["count"]) for r in (True, False, False, True, False)] == [
        *(0, 1, 2),
        *(0, 1),
    ]


def test_dummy_follows_its_seed():
    first, same, other = (Dummy(seed=seed).step({"reset": True})["vector"] for seed in (1, 1, 2))
    assert (first == same).all()
    assert (first != other).any()


@pytest.mark.parametrize("env", [Dummy(length=30), Catch(), *(Toy(task) for task in TASKS)])
def test_contract(env):
    report = check(env, steps=300)
    assert report.violations == {}
    assert report.lengths


def test_cue_optimum_and_random_return():
    env = Toy("cue", seed=0)
    assert env.optimum == 10
    assert env.random_return == 2.5
    assert play(env, lambda seen: int(seen[-1]["cue"]), 50) == env.optimum
    rng = np.random.default_rng(0)
    assert abs(play(env, lambda _: rng.integers(4), 2000) - env.random_return) < 0.15
    assert play(env, lambda seen: (int(seen[-1]["cue"]) + 1) % 4, 50) == 0


def test_memory_needs_the_first_observation():
    env = Toy("memory", seed=0)
    assert env.optimum == 1
    assert env.random_return == 0.25
    assert play(env, lambda seen: int(seen[0]["cue"]), 50) == env.optimum
    blind = play(env, lambda seen: int(seen[-1]["cue"]) % 4, 2000)
    assert abs(blind - env.random_return) < 0.05


def test_memory_shows_the_cue_once_and_asks_five_steps_later():
    env = Toy("memory", seed=3)
    obs = [env.step({"action": 0, "reset": step == 0})["cue"] for step in range(7)]
    assert 0 <= obs[0] < 4
    assert obs[1:] == [HIDDEN] * 4 + [QUESTION, obs[0]]


def test_only_the_answer_counts_in_memory():
    env = Toy("memory", seed=0)
    for early in range(4):

        def policy(seen, early=early):
            return int(seen[0]["cue"]) if len(seen) == 6 else early

        assert play(env, policy, 20) == 1


def test_shuffled_rewards_do_not_depend_on_the_actions():
    env = Toy("cue_shuffled", seed=0)
    assert env.optimum == env.random_return == 2.5
    best = play(env, lambda seen: int(seen[-1]["cue"]), 2000)
    assert abs(best - 2.5) < 0.15
    returns = {play(Toy("cue_shuffled", seed=5), lambda _, a=a: a, 20) for a in range(4)}
    assert len(returns) == 1


def test_unknown_toy_task():
    with pytest.raises(UnknownTask, match="'memory'"):
        Toy("memori")


def test_catch_pays_for_being_under_the_fruit():
    env, rng = Catch(seed=0), np.random.default_rng(0)
    assert (env.random_return, round(env.good_return, 1)) == (10, 48.9)

    def follow(image):
        column = np.argwhere((image == FRUIT).all(-1))[0, 1]
        basket = np.flatnonzero((image[-1] == BASKET).all(-1))  # Hidden behind a caught fruit.
        return 1 + int(np.sign(column - basket[0])) if len(basket) else 1

    def play_catch(choose):
        obs, score, steps = env.step({"action": 0, "reset": True}), 0.0, 0
        while not obs["is_last"]:
            obs = env.step({"action": choose(obs["image"]), "reset": False})
            score, steps = score + float(obs["reward"]), steps + 1
        assert steps == 60
        return score

    assert abs(np.mean([play_catch(follow) for _ in range(200)]) - env.good_return) < 1
    assert abs(np.mean([play_catch(lambda _: rng.integers(3)) for _ in range(200)]) - 10) < 1
    state = env.save()
    one = [env.step({"action": 2, "reset": False})["image"] for _ in range(70)]
    env.load(state)
    assert (
        np.array(one) == [env.step({"action": 2, "reset": 0})["image"] for _ in range(70)]
    ).all()
