"""Suites that cannot be installed everywhere, against fakes of what their packages document."""

import functools
import sys
import types
from importlib.machinery import ModuleSpec

import numpy as np
import pytest

from embodied.core.space import Space
from embodied.envs import dmlab, minecraft, registry
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
    assert words.shape == (32, 32)
    assert (words != 0).any(-1).tolist() == [True] * 4 + [False] * 28
    assert len(np.unique(words[:4], axis=0)) == 4
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


def test_words_of_dmlab():
    def same(left, right):
        return (dmlab.embed(left) == dmlab.embed(right)).all(-1)[:4].tolist()

    assert same("Get red_1 hat!", "get  red_ 1 HAT") == [True] * 4
    assert same("hat, cap", "hat ,cap") == [True] * 4
    assert same("hat!? 12", "hat !? 12") == [True] * 4
    words = " ".join(f"word{'x' * n}" for n in range(32))
    assert len(np.unique(dmlab.embed(words), axis=0)) == 32
    # Of this many words, few share a vector.
    many = {dmlab.embed(f"{a}{b}{c}")[0, 0] for a in "abcdefgh" for b in "ijklmnop" for c in "qrst"}
    assert len(many) > 250


def test_test_levels_of_dmlab_are_known():
    for level in ("rooms_collect_good_objects", "rooms_exploit_deferred_effects"):
        assert {f"{level}_train", f"{level}_test"} <= set(dmlab.TASKS)


class FakeHandlers:
    """Takes note of the handlers that a world is made of."""

    def __getattr__(self, name):
        return lambda *args, **kwargs: (name, args, kwargs)


class FakeEmbodiment:
    """Base class of worlds, and the `gym` environment that it makes."""

    def __init__(self, name, resolution):
        self.name, self.resolution, self.actions, self.count = name, resolution, [], 0

    def create_observables(self):
        return ["pov"]

    def create_actionables(self):
        return ["keys", "camera"]

    def make(self):
        self.handlers = self.create_observables() + self.create_actionables()
        self.start = self.create_agent_start()
        return self

    def reset(self):
        self.count = 0
        return self.observe()

    def step(self, action):
        self.actions.append(action)
        self.count += 1
        return self.observe(), 99.0, self.count == 6, {}

    def observe(self):
        width, height = self.resolution
        held = "wooden_pickaxe" if self.count >= 3 else "air"
        logs = np.array(int(2 <= self.count < 4))
        return {
            "pov": np.full((height, width, 3), self.count, np.uint8),
            "inventory": {
                "log": logs,
                "planks": 4 * (self.count > 3),
            },
            "equipped_items": {"mainhand": {"type": held}},
            "life_stats": {"life": np.float32(20 - (self.count == 5)), "food": 20, "air": 300},
        }

    def close(self):
        pass


@pytest.fixture
def minerl(monkeypatch):
    """Modules of MineRL 0.4 as far as worlds need them; returns the worlds that were made."""
    made = []

    class Embodiment(FakeEmbodiment):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            made.append(self)

    items = ["minecraft:air", "diamond", "log2", *minecraft.TASKS["diamond"], "dirt"]
    hero = "minerl.herobraine.hero"
    for name in ("minerl", "minerl.herobraine", hero, "minerl.herobraine.env_specs", "gym"):
        install(monkeypatch, name)
    install(monkeypatch, f"{hero}.mc", ALL_ITEMS=items)
    install(monkeypatch, f"{hero}.handler", Handler=object)
    handlers = install(monkeypatch, f"{hero}.handlers")
    handlers.__getattr__ = FakeHandlers().__getattr__
    embodiment = "minerl.herobraine.env_specs.simple_embodiment"
    install(monkeypatch, embodiment, SimpleEmbodimentEnvSpec=Embodiment)
    return made


def test_minecraft(minerl):
    env = registry.make("minecraft_diamond", {"size": (48, 64), "logs": True})
    (world,) = minerl
    names = [handler[0] for handler in world.handlers if isinstance(handler, tuple)]
    assert "FlatInventoryObservation" in names
    assert "CraftNearbyAction" in names
    assert world.start[0].xml_template() == "<BreakSpeedMultiplier>100.0</BreakSpeedMultiplier>"
    assert env.obs_space["image"].shape == (48, 64, 3)
    for _ in range(3):
        obs = [env.step(act(env, reset=np.bool_(i == 0))) for i in range(7)]
        # A log and planks pay once; a point of health is lost and comes back.
        rewards = [float(x["reward"]) for x in obs]
        assert rewards == pytest.approx([0, 0, 1, 0, 1, -0.01 / 20, 0.01 / 20])
        assert [bool(x["is_last"]) for x in obs] == [False] * 6 + [True]
        assert [bool(x["is_terminal"]) for x in obs] == [False] * 6 + [True]
        assert [float(x["log/log"]) for x in obs] == [0, 0, 1, 1, 1, 1, 1]
        assert float(obs[-1]["inventory"].sum()) == 4
        assert float(obs[-1]["inventory_max"].sum()) == 5
        equipped = [int(x["equipped"]) for x in obs]
        assert equipped[:3] == [0, 0, 0]
        assert len(set(equipped[3:])) == 1 and equipped[3] > 0
    assert check(env, steps=100).violations == {}
    short = registry.make("minecraft_wood", {"length": 3})
    obs = [short.step(act(short, reset=np.bool_(i == 0))) for i in range(4)]
    assert (bool(obs[-1]["is_last"]), bool(obs[-1]["is_terminal"])) == (True, False)


def test_actions_of_minecraft(minerl):
    env = registry.make("minecraft_diamond")
    world = minerl[-1]

    def after(*numbers):
        env.step(act(env, reset=np.bool_(True)))
        world.actions.clear()
        for number in numbers:
            world.count = 0  # Nobody dies here.
            env.step(act(env, action=np.int32(number)))
        return world.actions

    actions = minecraft.ACTIONS
    attack, up = actions.index({"attack": 1}), actions.index({"camera": (-15.0, 0.0)})
    jump = actions.index({"jump": 1, "forward": 1})
    assert [x["attack"] for x in after(attack, 0, attack, 0)] == [1, 0, 1, 0]
    assert [x["jump"] for x in after(jump, *[0] * 12)] == [1] * 10 + [0] * 3
    assert [float(x["camera"][0]) for x in after(*[up] * 6)] == [-15] * 4 + [0] * 2
    (craft,) = after(actions.index({"nearbyCraft": "iron_pickaxe"}))
    assert craft["nearbyCraft"] == "iron_pickaxe"
    assert {craft[key] for key in ("place", "craft", "nearbySmelt", "equip")} == {"none"}
    env = registry.make("minecraft_diamond", {"break_speed": 1.0})
    world = minerl[-1]
    assert [x["attack"] for x in after(attack, *[0] * 35)] == [1] * 30 + [0] * 6


def test_wood_pays_for_every_log_of_both_kinds_with_basic_actions(minerl):
    env = registry.make("minecraft_wood")
    (world,) = minerl
    assert env.act_space["action"] == Space(np.int32, (), 0, 12)
    logs = iter([(0, 0), (1, 0), (1, 2), (0, 2), (1, 2), (1, 2), (1, 2)])
    observe = world.observe

    def with_logs():
        found = observe()
        found["inventory"] |= dict(zip(("log", "log2"), map(np.array, next(logs)), strict=True))
        found["life_stats"] |= {"life": np.array(20.0)}
        return found

    world.observe = with_logs
    obs = [env.step(act(env, reset=np.bool_(i == 0))) for i in range(6)]
    assert [float(x["reward"]) for x in obs] == [0, 1, 2, 0, 1, 0]
    assert {float(x["health"]) for x in obs} == {1}
    assert {float(x["hunger"]) for x in obs} == {1}
    assert {float(x["breath"]) for x in obs} == {1}
    assert 3 in obs[-1]["inventory"]


def test_an_error_of_the_world_begins_an_episode(minerl):
    env = registry.make("minecraft_diamond")
    (world,) = minerl
    step = world.step
    world.step = lambda action: (*step(action)[:2], True, {"error": "lost"})
    env.step(act(env, reset=np.bool_(True)))
    obs = env.step(act(env))
    assert [bool(obs[key]) for key in ("is_first", "is_last", "is_terminal")] == [1, 0, 0]
    assert (float(obs["reward"]), int(obs["image"].max())) == (0, 0)
    world.step = step
    assert not env.step(act(env))["is_first"]


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("procgen_coinrum", "procgen_coinrun"),
        ("dmlab_explore_goal_location_small", "dmlab_explore_goal_locations_small"),
        ("minecraft_diamonds", "minecraft_diamond"),
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
