"""Suites that cannot be installed everywhere, against fakes of what their packages document."""

import functools
import sys
import types
from importlib.machinery import ModuleSpec

import numpy as np
import pytest

from embodied.envs import registry
from embodied.envs.check import check
from embodied.envs.errors import MissingExtra, UnknownOption, UnknownTask


def install(monkeypatch, name, **attributes):
    """Put a module in place of a package."""
    module = types.ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)
    vars(module).update(attributes)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def act(env, **values):
    action = {key: np.zeros(space.shape, space.dtype) for key, space in env.act_space.items()}
    return action | values


class FakeGym3:
    """The interface of gym3: `observe` at any time, `act`, and restarts without being asked."""

    def __init__(self, made, num, env_name, rand_seed, render_mode=None, **options):
        self.options = {"num": num, "env_name": env_name, "render_mode": render_mode, **options}
        self.seed, self.level, self.count, self.closed = rand_seed, 0, 0, False
        made.append(self)

    def observe(self):
        rgb = np.full((1, 64, 64, 3), 10 * self.level + self.count, np.uint8)
        reward = np.float32([self.count == 0 and self.level > 0])
        return reward, {"rgb": rgb}, np.array([self.count == 0])

    def act(self, action):
        assert action.shape == (1,)
        assert action.dtype == np.int32
        assert 0 <= action[0] < 15
        self.count += 1
        if self.count == 4:
            self.level, self.count = self.level + 1, 0

    def get_info(self):
        return [{"rgb": np.full((512, 512, 3), 10 * self.level + self.count, np.uint8)}]

    def close(self):
        self.closed = True


@pytest.mark.parametrize("size", [(64, 64), (96, 96)])
def test_procgen(monkeypatch, size):
    made = []
    install(monkeypatch, "procgen", ProcgenGym3Env=functools.partial(FakeGym3, made))
    env = registry.make("procgen_coinrun", {"size": size, "levels": 200, "mode": "easy"})
    (game,) = made
    wanted = {"env_name": "coinrun", "num_levels": 200, "start_level": 0, "num": 1}
    assert game.options.items() >= {**wanted, "distribution_mode": "easy"}.items()
    assert env.obs_space["image"].shape == (*size, 3)
    for level in range(3):
        obs = [env.step(act(env, reset=np.bool_(step == 0))) for step in range(5)]
        assert [bool(x["is_first"]) for x in obs] == [True, False, False, False, False]
        assert [bool(x["is_last"]) for x in obs] == [False, False, False, False, True]
        assert [bool(x["is_terminal"]) for x in obs] == [bool(x["is_last"]) for x in obs]
        # The next level never shows in this one, and its first frame pays nothing.
        frames = [int(x["image"].max()) for x in obs]
        assert frames == [10 * level + i for i in (0, 1, 2, 3, 3)]
        assert [float(x["reward"]) for x in obs] == [0, 0, 0, 0, 1]
    assert check(env, steps=100).violations == {}
    assert len({game.seed for game in made}) == len(made) == 2
    env.close()
    assert made[-1].closed


class FakeLab:
    """The Python interface of DeepMind Lab."""

    def __init__(self, level, observations, config, renderer):
        assert all(isinstance(value, str) for value in config.values())
        self.level, self.wanted, self.renderer = level, observations, renderer
        self.shape = int(config["height"]), int(config["width"]), 3
        self.seeds, self.actions, self.frames = [], [], None

    def reset(self, episode=-1, seed=None):
        self.seeds.append(seed)
        self.frames = 0

    def is_running(self):
        return self.frames is not None and self.frames < 20

    def observations(self):
        assert self.is_running(), "Observations are not available after the end."
        picture = np.full(self.shape, self.frames, np.uint8)
        found = {"RGB_INTERLEAVED": picture, "INSTR": "Find the red ball"}
        return {key: found[key] for key in self.wanted}

    def step(self, action, num_steps=1):
        assert self.is_running()
        assert action.dtype == np.intc
        assert action.shape == (7,)
        self.actions.append(action.tolist())
        self.frames += num_steps
        return 0.5 * num_steps

    def close(self):
        pass


@pytest.mark.parametrize("episodic", [True, False])
def test_dmlab(monkeypatch, episodic):
    made = []

    def make(*args, **kwargs):
        made.append(FakeLab(*args, **kwargs))
        return made[-1]

    install(monkeypatch, "deepmind_lab", Lab=make)
    options = {"size": (48, 64), "episodic": episodic, "renderer": "software"}
    env = registry.make("dmlab_language_answer_quantitative_question", options, seed=3)
    (lab,) = made
    assert lab.level == "contributed/dmlab30/language_answer_quantitative_question"
    assert env.obs_space["image"].shape == (48, 64, 3)
    for _ in range(3):
        obs = [env.step(act(env, reset=np.bool_(i == 0))) for i in range(6)]
        assert [float(x["reward"]) for x in obs] == [0, 2, 2, 2, 2, 2]
        last = [bool(x["is_last"]) for x in obs]
        assert last == [False] * 5 + [episodic]
        assert [bool(x["is_terminal"]) for x in obs] == last
        end = 16 if episodic else 0
        assert [int(x["image"].max()) for x in obs] == [0, 4, 8, 12, 16, end]
    words = obs[0]["instruction"]
    assert (words > 0).tolist() == [True] * 4 + [False] * 28
    assert len(set(words[:4].tolist())) == 4
    assert len(set(lab.seeds)) == len(lab.seeds)
    assert lab.actions[0] == [0, 0, 0, 1, 0, 0, 0]
    assert check(env, steps=100).violations == {}
    with pytest.raises(UnknownOption, match="impala, popart"):
        registry.make("dmlab_rooms_watermaze", {"actions": "all"})
    impala = registry.make("dmlab_rooms_watermaze", {"actions": "impala", "use_seed": False})
    assert int(impala.act_space["action"].high) == 9
    assert "instruction" not in impala.obs_space
    impala.step(act(impala, reset=np.bool_(True)))
    assert made[-1].seeds == [None]


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("procgen_coinrum", "procgen_coinrun"),
        ("dmlab_explore_goal_location_small", "dmlab_explore_goal_locations_small"),
        ("memmaze_10x10", "memmaze_11x11"),
        ("langroom_answer", "langroom_answer-only"),
        ("manipulation_reach_site", "manipulation_reach_site_vision"),
    ],
)
def test_unknown_tasks_name_the_closest(task, words):
    with pytest.raises(UnknownTask, match=words):
        registry.check_task(task)


def test_what_is_missing_is_said_in_one_sentence(monkeypatch):
    monkeypatch.setattr(registry.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"needs procgen, PIL; .*'procgen'"):
        registry.check_task("procgen_coinrun")
    with pytest.raises(MissingExtra, match=r"needs deepmind_lab; Has to be built.*environments.md"):
        registry.check_task("dmlab_rooms_watermaze")
