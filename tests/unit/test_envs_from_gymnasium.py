"""The Gymnasium adapter: spaces of every kind, the episode protocol, seeds and old interfaces."""

import numpy as np
import pytest

from embodied.core.space import Space
from embodied.envs import registry
from embodied.envs.check import check
from embodied.envs.errors import (
    EnvError,
    MissingExtra,
    UnknownOption,
    UnknownTask,
    UnsupportedSpace,
)
from embodied.envs.from_gymnasium import FromGymnasium
from embodied.envs.gymnasium_ids import translate_errors

gymnasium = pytest.importorskip("gymnasium")
spaces = gymnasium.spaces

NESTED = spaces.Dict(
    {
        "bounded": spaces.Box(np.array([-1.0, -0.1]), np.array([2.0, 0.1]), dtype=np.float64),
        "unbounded": spaces.Box(-np.inf, np.inf, (3,), np.float32),
        "whole": spaces.Box(-2, 4, (2, 2), np.int64),
        "choice": spaces.Discrete(4, start=-3),
        "choices": spaces.MultiDiscrete([2, 5, 3]),
        "table": spaces.MultiDiscrete([[2, 3], [4, 5]]),
        "bits": spaces.MultiBinary(4),
        "inner": spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(0, 1, (1,))}),
        "pair": spaces.Tuple((spaces.Discrete(3), spaces.Dict({"c": spaces.Box(0, 1, ())}))),
    }
)
NAMES = {
    *("bounded", "unbounded", "whole", "choice", "choices", "table", "bits"),
    *("inner_a", "inner_b", "pair_0", "pair_1_c"),
}


class Echo(gymnasium.Env):
    """Checks each action against its own space and observes random values."""

    def __init__(self, observation=NESTED, action=NESTED, length=5, terminated=True):
        self.observation_space, self.action_space = observation, action
        self.length, self.terminated = length, terminated
        self.actions, self.seeds = [], []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.seeds.append(seed)
        self.count = 0
        return self.observe(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.actions.append(action)
        self.count += 1
        over = self.count >= self.length
        return self.observe(), 1, over and self.terminated, over and not self.terminated, {}

    def observe(self):
        self.last = self.observation_space.sample()
        return self.last


def act(env, rng, reset=False):
    return {key: space.sample(rng) for key, space in env.act_space.items()} | {"reset": reset}


def test_every_kind_of_space_as_observation_and_action():
    inner = Echo()
    env = FromGymnasium(inner, seed=0)
    assert set(env.act_space) == {f"act_{name}" for name in NAMES} | {"reset"}
    assert set(env.obs_space) == NAMES | {"reward", "is_first", "is_last", "is_terminal"}
    rng = np.random.default_rng(0)
    for step in range(100):
        obs = env.step(act(env, rng, reset=step % 6 == 0))
        for key, value in obs.items():
            assert env.obs_space[key].explain(value) is None, key
        assert np.allclose(obs["bounded"], inner.last["bounded"])
        assert int(obs["choice"]) == inner.last["choice"] + 3
        assert (obs["whole"] == inner.last["whole"] + 2).all()
        assert (obs["choices"] == inner.last["choices"]).all()
        assert int(obs["pair_0"]) == inner.last["pair"][0]
        assert obs["pair_1_c"] == inner.last["pair"][1]["c"]
    assert len(inner.actions) > 50


def test_spaces_of_choices():
    space = FromGymnasium(Echo(spaces.Discrete(2))).act_space
    assert space["choice"] == Space(np.int32, (), 0, 4)
    assert space["choices"].classes.tolist() == [2, 5, 3]
    assert space["table"].classes.tolist() == [[2, 3], [4, 5]]
    assert space["bits"] == Space(np.int32, (4,), 0, 2)
    assert space["bounded"].high.tolist() == np.float32([2, 0.1]).tolist()
    assert space["unbounded"] == Space(np.float32, (3,))


def test_actions_arrive_in_the_own_range_type_and_structure():
    inner = Echo(spaces.Discrete(2))
    env = FromGymnasium(inner)
    action = {key: np.zeros(space.shape, space.dtype) for key, space in env.act_space.items()}
    env.step(action | {"reset": True})
    action |= {"choice": np.int32(3), "pair_0": np.int32(2), "reset": False}
    action |= {"bounded": np.float32([2, 0.1]), "choices": np.int32([1, 4, 2])}
    env.step(action)
    given = inner.actions[0]
    assert given["choice"] == 0
    assert isinstance(given["choice"], np.int64)
    assert given["bounded"].dtype == np.float64
    assert given["bounded"].tolist() == [2.0, 0.1]
    assert given["whole"].dtype == np.int64
    assert given["whole"].tolist() == [[-2, -2], [-2, -2]]
    assert given["choices"].tolist() == [1, 4, 2]
    assert given["bits"].dtype == np.int8
    assert isinstance(given["pair"], tuple)
    assert given["pair"][0] == 2
    assert set(given["inner"]) == {"a", "b"}


@pytest.mark.parametrize("terminated", [True, False])
def test_truncation_is_not_terminal(terminated):
    env = FromGymnasium(Echo(length=3, terminated=terminated))
    rng = np.random.default_rng(0)
    for _ in range(2):
        obs = [env.step(act(env, rng, reset=step == 0)) for step in range(4)]
        assert [bool(x["is_first"]) for x in obs] == [True, False, False, False]
        assert [bool(x["is_last"]) for x in obs] == [False, False, False, True]
        assert [bool(x["is_terminal"]) for x in obs] == [False, False, False, terminated]
        assert [float(x["reward"]) for x in obs] == [0, 1, 1, 1]


def test_only_the_first_reset_is_seeded():
    inner = Echo()
    env = FromGymnasium(inner, seed=5)
    for _ in range(3):
        env.step({"reset": True})
    assert inner.seeds == [5, None, None]


def test_single_arrays_get_a_name():
    picture = spaces.Box(0, 255, (6, 8, 3), np.uint8)
    assert FromGymnasium(Echo(picture)).obs_space["image"] == Space(np.uint8, (6, 8, 3))
    gray = FromGymnasium(Echo(spaces.Box(0, 255, (6, 8), np.uint8)))
    assert gray.obs_space["image"] == Space(np.uint8, (6, 8, 1))
    assert "image" in FromGymnasium(Echo(spaces.Box(0, 1, (6, 8, 3)))).obs_space
    unbounded = FromGymnasium(Echo(spaces.Box(-np.inf, np.inf, (6, 8, 3))))
    assert unbounded.obs_space["vector"] == Space(np.float32, (48, 3))
    grid = FromGymnasium(Echo(spaces.Box(0, 10, (7, 7, 3), np.uint8)))
    assert grid.obs_space["vector"] == Space(np.int32, (49, 3), 0, 11)
    for env in (unbounded, grid, gray):
        assert check(env, steps=20).violations == {}
    env = FromGymnasium(Echo(spaces.Discrete(3), spaces.Discrete(2)), "state", "move")
    assert "state" in env.obs_space
    assert "move" in env.act_space


@pytest.mark.parametrize("space", [spaces.Text(5), spaces.Sequence(spaces.Discrete(2))])
def test_text_and_sequences_are_refused(space):
    for name in ("observation", "action"):
        with pytest.raises(UnsupportedSpace, match=f"'words'.*{type(space).__name__}"):
            FromGymnasium(Echo(**{name: spaces.Dict({"words": space})}))


def test_colliding_and_reserved_names():
    double = spaces.Dict({"a_b": spaces.Discrete(2), "a": spaces.Dict({"b": spaces.Discrete(2)})})
    with pytest.raises(UnsupportedSpace, match="'a_b'"):
        FromGymnasium(Echo(double))
    env = FromGymnasium(
        Echo(
            spaces.Dict({"reward": spaces.Box(5, 6, (1,)), "log/x": spaces.Discrete(2)}),
            spaces.Dict({"reset": spaces.Discrete(2)}),
        )
    )
    assert env.obs_space["obs_reward"].shape == (1,)
    assert "log_x" in env.obs_space
    assert env.act_space["act_reset"] == Space(np.int32, (), 0, 2)


@pytest.mark.parametrize("takes_seed", [False, True])
def test_old_interface_with_four_values(takes_seed):
    class Old:
        observation_space, action_space = spaces.Box(0, 1, (2,)), spaces.Discrete(2)
        count, seeds = 0, ()

        def seed(self, value):
            self.seeds += (value,)

        def reset(self):
            self.count = 0
            return np.zeros(2, np.float32)

        def step(self, action):
            self.count += 1
            info = {"TimeLimit.truncated": True} if self.count == 3 else {}
            return np.ones(2, np.float32), 0.5, self.count == 3, info

    class Seeded(Old):
        def reset(self, seed=None):
            if seed is not None:
                self.seed(seed)
            return super().reset()

    inner = Seeded() if takes_seed else Old()
    env = FromGymnasium(inner, seed=4)
    obs = [env.step({"action": np.int32(0), "reset": step == 0}) for step in range(4)]
    assert inner.seeds == (4,)
    assert [bool(x["is_last"]) for x in obs] == [False, False, False, True]
    assert not obs[-1]["is_terminal"]
    assert float(obs[-1]["reward"]) == 0.5


def test_contract_of_everything():
    report = check(FromGymnasium(Echo(), seed=0), steps=200)
    assert report.violations == {}
    assert set(report.lengths) == {5}


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "MountainCarContinuous-v0"])
def test_classic_control(name):
    env = registry.make(f"gymnasium_{name}", seed=1)
    report = check(env, steps=300)
    env.close()
    assert report.violations == {}
    if name == "CartPole-v1":
        assert report.terminals == len(report.lengths) > 0
    if name == "Pendulum-v1":
        assert report.terminals == 0


def test_seed_decides_the_first_observation():
    def first(seed):
        env = registry.make("gymnasium_CartPole-v1", seed=seed)
        return env.step({"reset": True})["vector"]

    assert (first(1) == first(1)).all()
    assert (first(1) != first(2)).any()


def test_options_and_unknown_ids():
    env = registry.make("gymnasium_CartPole-v1", {"max_episode_steps": 3, "obs_key": "state"})
    report = check(env, steps=50)
    assert set(report.lengths) == {3}
    assert report.terminals == 0
    assert "state" in env.obs_space
    with pytest.raises(UnknownTask, match="CartPoleX-v1"):
        registry.make("gymnasium_CartPoleX-v1")


def test_many_choices_are_classes_and_beyond_the_limit_numbers_with_a_note():
    choices = spaces.Dict({"taxi": spaces.Discrete(500), "two": spaces.MultiDiscrete([3, 700])})
    env = FromGymnasium(Echo(choices))
    assert env.obs_space["taxi"] == Space(np.int32, (), 0, 500)
    assert env.obs_space["two"].classes.tolist() == [3, 700]
    assert env.notes == []
    assert check(env, 20).violations == {}
    env = FromGymnasium(Echo(choices), max_classes=600)
    assert env.obs_space["two"].dtype == np.float32
    assert [note[:17] for note in env.notes] == ["Observation 'two'"]
    assert check(env, 20).violations == {}
    env = registry.make("gymnasium_Taxi-v4", {"max_classes": 400})
    assert env.obs_space["vector"].dtype == np.float32


def test_all_wrong_keys_are_named():
    class Wrong(Echo):
        def observe(self):
            found = super().observe()
            return found if self.count < 3 else {**found, "a": "text", "b": np.zeros(5)}

    boxes = spaces.Dict({key: spaces.Box(0, 1, (2,)) for key in "abc"})
    report = check(FromGymnasium(Wrong(boxes)), 60)
    assert set(report.violations) == {"a value", "b value"}
    assert report.violations["a value"][0] > 3
    assert len(report.violations["a value"]) == 3


@pytest.mark.filterwarnings("ignore:.*out of date")
@pytest.mark.parametrize(
    ("name", "options", "error", "words"),
    [
        ("LunarLander-v2", {}, UnknownTask, "deprecated.*'LunarLander-v3'"),
        ("Ant-v3", {}, MissingExtra, "Ant-v3.*gymnasium-robotics"),
        ("CartPole-v9", {}, UnknownTask, "CartPole-v9.*'CartPole-v1'"),
        ("nomodule:Foo-v0", {}, MissingExtra, "'nomodule'.*no such module"),
        ("NONE/Pong-v5", {}, UnknownTask, "gymnasium_my_module:NONE/Pong-v5"),
        ("CartPole-v1", {"gravit": 3}, UnknownOption, "'gravit'.*sutton_barto_reward"),
        ("CartPole-v1", {"gravit": 3, "vector": True}, UnknownOption, "'gravit'.*sutton_barto"),
        ("FrozenLake-v1", {"map_nam": 3}, UnknownOption, "Did you mean 'map_name'"),
    ],
)
def test_ids_and_options_are_checked_before_a_run_begins(name, options, error, words):
    with pytest.raises(error, match=words):
        registry.check(f"gymnasium_{name}", options)


@pytest.mark.filterwarnings("ignore:.*out of date")
def test_what_only_shows_when_an_id_is_made():
    with pytest.raises(MissingExtra, match="Ant-v3.*gymnasium-robotics"):
        registry.make("gymnasium_Ant-v3")
    registry.check("gymnasium_CartPole-v0")
    with translate_errors("Foo-v0"), pytest.raises(TypeError, match="of its own"):
        raise TypeError("of its own")
    with pytest.raises(UnknownOption, match="'foo'"), translate_errors("Foo-v0"):
        raise TypeError("__init__() got an unexpected keyword argument 'foo'")


def test_pictures_are_resized_by_an_option(tmp_path, monkeypatch):
    pytest.importorskip("PIL")
    (tmp_path / "own_camera.py").write_text(
        "import gymnasium, numpy as np\n"
        "class Camera(gymnasium.Env):\n"
        "    observation_space = gymnasium.spaces.Box(0, 255, (84, 84, 3), np.uint8)\n"
        "    action_space = gymnasium.spaces.Discrete(2)\n"
        "    def reset(self, seed=None, options=None): return self.observation_space.sample(), {}\n"
        "    def step(self, action): return self.reset()[0], 0, False, False, {}\n"
        "class Stack(Camera):\n"
        "    observation_space = gymnasium.spaces.Box(0, 255, (4, 84, 84), np.uint8)\n"
        "gymnasium.register('OwnCamera-v0', Camera)\n"
        "def many(num_envs): return gymnasium.make_vec('OwnCamera-v0', num_envs)\n"
    )
    monkeypatch.chdir(tmp_path)
    tasks = ("own_camera:Camera", "gymnasium_own_camera:OwnCamera-v0", "own_camera:many")
    for task in tasks:
        registry.check(task, {"size": (64, 48)})
        env = registry.make(task, {"size": (64, 48)})
        assert env.obs_space["image"].shape == (64, 48, 3)
        assert check(env, 8).violations == {}
    with pytest.raises(EnvError, match="Got size 64, expected height and width"):
        registry.make("own_camera:Camera", {"size": 64})
    with pytest.raises(EnvError, match=r"shape \(4, 84, 84\).*move the channels to the end"):
        registry.make("own_camera:Stack", {"size": (64, 64)})
