"""Environments in JAX, in the host loop and by themselves; those of packages where installed."""

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dreamerv3.cli.factories import wrap_env
from embodied.core.driver import Driver
from embodied.core.space import Space
from embodied.envs import registry
from embodied.envs.check import check
from embodied.envs.errors import EnvError, MissingExtra, UnknownTask
from embodied.envs.pure import make_pure
from embodied.jax.pure_env import bounded

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
WORLDS = 2
#: Compiling this one takes long.
CRAFTAX = "craftax_Craftax-Classic-Symbolic-v1"
#: Task, the package that it needs, and options that let time limits come.
TASKS = {
    "jaxtoy_grid": ("jax", {}),
    "navix_Empty-5x5": ("navix", {"length": 30}),
    "gymnax_CartPole-v1": ("gymnax", {}),
    "xminigrid_MiniGrid-Empty-5x5": ("xminigrid", {}),
    CRAFTAX: ("craftax", {"length": 60}),
}


def slow_if_large(tasks):
    return [pytest.param(x, marks=pytest.mark.slow) if x == CRAFTAX else x for x in tasks]


def needs(package):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


def episodes_one_by_one(env, key, actions):
    """Step each world by itself, with `reset` and `step` alone; returns lists by step and world."""
    fold = jax.random.fold_in
    reset = jax.jit(lambda world, n: env.reset(fold(fold(key, world), n)))
    step = jax.jit(lambda *args: env.step(*args[2:], fold(fold(key, args[0]), args[1])))
    states, last = [None] * WORLDS, [True] * WORLDS
    found = []
    for n, given in enumerate(actions):
        row = []
        for world in range(WORLDS):
            first = last[world]
            if first:
                states[world], obs = reset(world, n)
                obs = {k: v for k, v in obs.items() if not k.startswith("log/")}
                obs |= {"reward": 0.0, "is_last": False, "is_terminal": False}
            else:
                action = {k: v[world] for k, v in given.items()}
                states[world], obs = step(world, n, states[world], action)
            last[world] = bool(obs["is_last"])
            row.append({**obs, "is_first": first})
        found.append(row)
    return found


@pytest.mark.parametrize("task", slow_if_large(TASKS))
def test_driver_gets_the_transitions_of_single_worlds(task):
    package, options = TASKS[task]
    needs(package)
    env = registry.construct(task, options)
    steps, seed = 300, 5
    actions = []
    rng = np.random.default_rng(0)
    found = [[] for _ in range(WORLDS)]

    def policy(carry, obs):
        drawn = [[x.sample(rng) for _ in range(WORLDS)] for x in env.act_space.values()]
        chosen = dict(zip(env.act_space, map(np.stack, drawn), strict=True))
        actions.append(chosen)
        return carry, chosen, {}

    with Driver(lambda: registry.make_batch(task, options, WORLDS, seed=seed)) as driver:
        driver.reset(lambda count: ())
        driver.on_step(lambda tran, worker: found[worker].append(dict(tran)))
        driver(policy, steps=steps * WORLDS)
    # The action chosen after an observation leads to the next one.
    given = [actions[0], *actions][:steps]
    key = jax.random.PRNGKey(registry.instance_seed(seed, 0))
    expected = episodes_one_by_one(env, key, given)
    for n, row in enumerate(expected):
        for world, obs in enumerate(row):
            for name, value in obs.items():
                got = found[world][n][name]
                assert np.allclose(got, value, rtol=1e-5, atol=1e-5), (n, world, name)
    lasts = [row[world]["is_last"] for row in expected for world in range(WORLDS)]
    assert sum(map(bool, lasts)) > 1


@pytest.mark.slow
def test_toys_fulfil_the_contract_of_the_host():
    report = check(registry.make_batch("jaxtoy_grid", {}, 3), steps=200)
    assert report.violations == {}
    assert report.instances == 3
    assert max(report.lengths) == 50
    assert 0 < report.terminals < len(report.lengths)


@pytest.mark.parametrize("task", slow_if_large([task for task in TASKS if "toy" not in task]))
def test_suites_fulfil_the_contract_of_the_host(task):
    package, options = TASKS[task]
    needs(package)
    report = check(registry.make_batch(task, options, 3), steps=150)
    assert report.violations == {}
    assert report.lengths


def walk(env, actions):
    """Step one world from the start of an episode until it ends; returns the observations."""
    reset, step = jax.jit(env.reset), jax.jit(env.step)
    key = jax.random.PRNGKey(0)
    state, _ = reset(key)
    found = []
    for action in actions:
        state, obs = step(state, {"action": jnp.int32(action)}, key)
        found.append(obs)
        if obs["is_last"]:
            break
    return found


@pytest.mark.parametrize("task", ["navix_Navix-Empty-5x5-v0", "xminigrid_MiniGrid-Empty-5x5"])
def test_goal_pays_and_is_terminal_and_the_time_limit_is_not(task):
    needs(task.partition("_")[0])
    env = make_pure(task)
    navix = task.startswith("navix")
    forward, right, left = (2, 1, 0) if navix else (0, 1, 2)
    found = walk(env, [forward, forward, right, forward, forward])
    assert [bool(obs["is_terminal"]) for obs in found] == [False] * 4 + [True]
    # XLand-MiniGrid pays less the later.
    assert float(found[-1]["reward"]) == (1 if navix else pytest.approx(1 - 0.9 * 5 / 75, abs=0.05))
    assert [float(obs["log/success"]) for obs in found] == [0, 0, 0, 0, 1]
    assert found[-1]["is_last"]
    found = walk(env, [left] * 300)
    assert found[-1]["is_last"] and not found[-1]["is_terminal"]
    assert float(found[-1]["reward"]) == 0
    assert float(found[-1]["log/success"]) == 0


def test_time_limits_of_other_suites_are_not_terminal():
    needs("gymnax")
    env = make_pure("gymnax_Pendulum-v1")
    key = jax.random.PRNGKey(0)
    state, obs = jax.jit(env.reset)(key)
    step = jax.jit(env.step)
    for n in range(200):
        state, obs = step(state, {"action": jnp.zeros(1)}, key)
        assert bool(obs["is_last"]) == (n == 199)
        assert not obs["is_terminal"]


class Slider:
    """Observes the action that it was sent, whose bounds are 0 and 10."""

    def __init__(self):
        self.obs_space = {"sent": Space(np.float32)}
        self.act_space = {"action": Space(np.float32, (), 0, 10)}

    def reset(self, key):
        return jnp.int32(0), {"sent": jnp.float32(0)}

    def step(self, state, action, key):
        flags = {"reward": jnp.float32(0), "is_last": state >= 4, "is_terminal": state < 0}
        return state + 1, {"sent": action["action"], **flags}

    def draw(self, state):
        return np.full((8, 6, 3), state, np.uint8)


def test_unclipped_actions_are_stored_and_clipped_ones_sent():
    env = bounded(Slider())
    assert env.act_space["action"].high == 1
    sent = [env.step(jnp.int32(0), {"action": jnp.float32(x)}, None)[1]["sent"] for x in (3, 0, -9)]
    assert [float(x) for x in sent] == [10, 5, 0]
    task = f"{__name__}:Slider"
    found = []
    with Driver(lambda: wrap_env(registry.make_batch(task, {}, WORLDS))) as driver:
        driver.reset(lambda count: ())
        driver.on_step(lambda tran, worker: found.append(dict(tran)))
        driver(lambda carry, obs: (carry, {"action": np.full(2, 3, np.float32)}, {}), steps=6)
    assert [float(x["action"]) for x in found] == [3] * 6
    assert [float(x["sent"]) for x in found] == [0, 0, 10, 10, 10, 10]


def test_pictures_of_every_other_episode_of_the_first_world():
    task = f"{__name__}:Slider"
    env = registry.make_batch(task, {"log_image_every": 2}, WORLDS)
    assert env.obs_space["log/image"] == Space(np.uint8, (8, 6, 3))
    reset, shown = np.ones(WORLDS, bool), []
    for _ in range(18):
        obs = env.step({"action": np.zeros(WORLDS, np.float32), "reset": reset})
        reset = obs["is_last"]
        shown.append(
            "log/image" in obs and (int(obs["log/image"][0].max()), obs["log/image"].shape)
        )
    whole = [(n, (WORLDS, 8, 6, 3)) for n in range(6)]
    assert shown == whole + [False] * 6 + whole
    assert "log/image" not in registry.make_batch(task, {}, WORLDS).obs_space
    with pytest.raises(EnvError, match="draw"):
        registry.make_batch("jaxtoy_grid", {"log_image_every": 1}, 1)


@pytest.mark.parametrize(
    "task", slow_if_large(["navix_Empty-5x5", "xminigrid_MiniGrid-Empty-5x5", CRAFTAX])
)
def test_suites_draw(task):
    needs(task.partition("_")[0])
    env = registry.construct(task)
    state, _ = jax.jit(env.reset)(jax.random.PRNGKey(0))
    picture = np.asarray(env.draw(state))
    assert picture.dtype == np.uint8
    assert picture.ndim == 3 and picture.shape[-1] == 3
    assert picture.max() > 50


def test_single_instances_and_functions_that_make_one():
    assert registry.is_batched(f"{__name__}:Slider")
    for name in ("Slider", "make_slider"):
        env = registry.make(f"{__name__}:{name}")
        assert check(env, steps=20).violations == {}
        assert make_pure(f"{__name__}:{name}").act_space["action"].low == -1


def make_slider():
    return Slider()


def test_what_is_no_environment_in_jax_is_refused():
    with pytest.raises(UnknownTask, match="expected an environment in JAX.*jaxtoy"):
        make_pure("toy_cue")
    with pytest.raises(EnvError, match="Got Toy.*step\\(state, action, key\\)"):
        make_pure("embodied.envs.toy:Toy")
    with pytest.raises(UnknownTask, match="jaxtoy_grid"):
        make_pure("jaxtoy_gird")
    with pytest.raises(UnknownTask, match="craftax_Craftax-Symbolic-v1|craftax"):
        make_pure("craftax_Craftax-Symbolik-v1")


@pytest.mark.parametrize("suite", ["navix", "gymnax", "xminigrid", "craftax"])
def test_missing_package_names_the_extra(suite, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    example = registry.SUITES[suite].example
    for make in (registry.make, make_pure):
        with pytest.raises(MissingExtra, match=f"{suite}.*jaxenvs"):
            make(example)


@pytest.mark.parametrize(
    ("task", "near"),
    [
        ("navix_Emty-5x5", "Navix-Empty-5x5-v0"),
        ("gymnax_CartPole-v0", "CartPole-v1"),
        ("xminigrid_MiniGrid-Empty-5x4", "MiniGrid-Empty-5x5"),
    ],
)
def test_near_names_are_suggested(task, near):
    needs(task.partition("_")[0])
    with pytest.raises(UnknownTask, match=near):
        registry.check(task)
