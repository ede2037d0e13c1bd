"""Environments as pure functions, and copies of one that step together."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.core.space import Space
from embodied.envs.errors import UnknownTask
from embodied.envs.pure import toy
from embodied.jax.pure_env import advance, bounded, initial, time_limit

WORLDS = 3
KEY = np.array([1, 2], np.uint32)


class Line:
    """Goes where it is told; pays for where it is; ends, terminally, beyond 2."""

    def __init__(self):
        self.obs_space = {"place": Space(np.float32), "log/place": Space(np.float32)}
        self.act_space = {"move": Space(np.float32, (), -2, 4)}

    def reset(self, key):
        return jnp.float32(0), {"place": jnp.float32(0)}

    def step(self, state, action, key):
        state = state + action["move"]
        over = state > 2
        obs = {"place": state, "log/place": state, "reward": state}
        return state, {**obs, "is_last": over, "is_terminal": over}


def episode(env, choose, steps):
    """Observations of worlds that start again where an episode has ended, [steps, N]."""
    step = jax.jit(functools.partial(advance, env))
    state, reset, seen = initial(env, WORLDS, KEY), np.ones(WORLDS, bool), []
    obs = None
    for n in range(steps):
        action = {key: choose(obs, x) for key, x in env.act_space.items()}
        state, obs = step(state, action, reset, KEY, n)
        seen.append(jax.tree.map(np.asarray, obs))
        reset = seen[-1]["is_last"]
    return {key: np.stack([obs[key] for obs in seen]) for key in obs}


def test_continuous_actions_are_clipped_and_scaled():
    env = bounded(Line())
    assert env.act_space["move"] == Space(np.float32, (), -1, 1)
    seen = episode(env, lambda obs, space: np.full(WORLDS, 3.0, np.float32), 3)
    # The largest action is 4, wherever it is above 1.
    np.testing.assert_array_equal(seen["place"][:, 0], [0, 4, 0])
    assert seen["is_first"][:, 0].tolist() == [True, False, True]
    assert seen["is_terminal"][:, 0].tolist() == [False, True, False]
    assert seen["reward"][:, 0].tolist() == [0, 4, 0]
    assert seen["log/place"][:, 0].tolist() == [0, 4, 0]


def test_a_time_limit_is_last_but_not_terminal_and_counts_from_the_reset():
    env = time_limit(Line(), 2)
    seen = episode(env, lambda obs, space: np.ones(WORLDS, np.float32), 6)
    assert seen["is_first"][:, 1].tolist() == [True, False, False] * 2
    assert seen["is_last"][:, 1].tolist() == [False, False, True] * 2
    assert not seen["is_terminal"].any()


@pytest.mark.parametrize("task", ["cue", "memory"])
def test_the_known_best_policy_of_a_toy_earns_its_optimum(task):
    env = toy.make(task)

    def choose(obs, space):
        if obs is None:
            return np.zeros(WORLDS, np.int32)
        first = np.asarray(obs["is_first"])
        choose.kept = np.where(first, obs["cue"], getattr(choose, "kept", 0))
        return np.asarray(obs["cue"] if task == "cue" else choose.kept, np.int32)

    seen = episode(env, choose, 2 * (env.length + 1))
    assert (seen["reward"].sum(0) == 2 * env.optimum).all()
    assert seen["is_terminal"].sum() == 2 * WORLDS
    assert len({tuple(x) for x in seen["cue"].T.tolist()}) == WORLDS, "worlds differ"


def test_the_goal_of_the_grid_pays_and_is_terminal_and_its_time_limit_is_not():
    env = toy.make("grid")
    rng = np.random.default_rng(0)
    random = lambda obs, space: rng.integers(0, 3, WORLDS).astype(np.int32)  # noqa: E731
    seen = episode(env, random, 600)
    assert (seen["reward"] == seen["is_terminal"]).all()
    assert seen["is_terminal"].any()
    assert (seen["log/success"] == seen["reward"]).all()
    still = episode(env, lambda obs, space: np.zeros(WORLDS, np.int32), env.limit + 1)
    assert still["is_last"].any(1).nonzero()[0].tolist() == [env.limit]
    assert not still["is_terminal"].any()


def test_a_toy_that_does_not_exist_is_named():
    with pytest.raises(UnknownTask, match="expected one of cue, memory"):
        toy.make("cu")
