"""The dm_env adapter, with a small environment that follows the documented interface."""

import dm_env
import numpy as np
import pytest
from dm_env import specs

from embodied.core.space import Space
from embodied.envs.check import check
from embodied.envs.errors import UnsupportedSpace
from embodied.envs.from_dm import FromDM


class Countdown(dm_env.Environment):
    """Ends after four steps with the given discount and remembers the actions it got."""

    def __init__(self, discount=0.0, single=False):
        self.discount, self.single = discount, single
        self.actions = []
        self.closed = False

    def observation_spec(self):
        spec = specs.Array((2,), np.float64, "position")
        if self.single:
            return spec
        return {
            "walker/position": spec,
            "height": specs.Array((), np.float64, "height"),
            "mode": specs.BoundedArray((), np.int64, 2, 4, "mode"),
            "camera": specs.BoundedArray((4, 6, 3), np.uint8, 0, 255, "camera"),
            "reward": specs.Array((1,), np.float32, "reward"),
            "nothing": specs.Array((0,), np.float32, "nothing"),
        }

    def action_spec(self):
        force = specs.BoundedArray((2,), np.float64, [-1, -3], [1, 5], "force")
        if self.single:
            return specs.DiscreteArray(3)
        return {"force": force, "tool": specs.DiscreteArray(3)}

    def observe(self):
        position = np.array([self.left, 0.5])
        if self.single:
            return position
        return {
            "walker/position": position,
            "height": 1.5,
            "mode": 2 + self.left % 3,
            "camera": np.full((4, 6, 3), self.left, np.uint8),
            "reward": np.float32([3]),
            "nothing": np.zeros(0, np.float32),
        }

    def reset(self):
        self.left = 4
        return dm_env.restart(self.observe())

    def step(self, action):
        self.actions.append(action)
        self.left -= 1
        if self.left:
            return dm_env.transition(2.0, self.observe(), 0.9)
        return dm_env.TimeStep(dm_env.StepType.LAST, 2.0, self.discount, self.observe())

    def close(self):
        self.closed = True


def test_spaces_and_names():
    env = FromDM(Countdown())
    spaces = env.obs_space
    assert spaces["walker_position"] == Space(np.float32, (2,))
    assert spaces["height"] == Space(np.float32, ())
    assert spaces["mode"] == Space(np.int32, (), 0, 3)
    assert spaces["camera"] == Space(np.uint8, (4, 6, 3))
    assert spaces["obs_reward"] == Space(np.float32, (1,))
    assert spaces["reward"] == Space(np.float32)
    assert "nothing" not in spaces
    assert env.act_space["force"] == Space(np.float32, (2,), [-1, -3], [1, 5])
    assert env.act_space["tool"] == Space(np.int32, (), 0, 3)


@pytest.mark.parametrize(("discount", "terminal"), [(0.0, True), (1.0, False), (0.5, False)])
def test_episode(discount, terminal):
    inner = Countdown(discount)
    env = FromDM(inner)
    action = {"force": np.float32([0.25, -2]), "tool": np.int32(2)}
    for _ in range(2):
        obs = [env.step({**action, "reset": step == 0}) for step in range(5)]
        assert all(env.obs_space[key].explain(x[key]) is None for x in obs for key in x)
        assert [float(x["reward"]) for x in obs] == [0, 2, 2, 2, 2]
        assert [bool(x["is_first"]) for x in obs] == [True] + [False] * 4
        assert [bool(x["is_last"]) for x in obs] == [False] * 4 + [True]
        assert [bool(x["is_terminal"]) for x in obs] == [False] * 4 + [terminal]
        assert [float(x["walker_position"][0]) for x in obs] == [4, 3, 2, 1, 0]
        assert [int(x["mode"]) for x in obs] == [1, 0, 2, 1, 0]
    given = inner.actions[0]
    assert given["force"].dtype == np.float64
    assert given["force"].tolist() == [0.25, -2]
    assert int(given["tool"]) == 2


def test_reset_in_the_middle_and_closing():
    inner = Countdown()
    env = FromDM(inner)
    for reset in (True, False, True, False):
        obs = env.step({"force": np.zeros(2, np.float32), "tool": np.int32(0), "reset": reset})
        assert obs["is_first"] == reset
    assert len(inner.actions) == 2
    env.close()
    assert inner.closed


def test_single_arrays():
    inner = Countdown(single=True)
    env = FromDM(inner, obs_key="state", act_key="move")
    assert env.obs_space["state"] == Space(np.float32, (2,))
    assert env.act_space["move"] == Space(np.int32, (), 0, 3)
    env.step({"move": np.int32(0), "reset": True})
    env.step({"move": np.int32(2), "reset": False})
    assert inner.actions == [2]


@pytest.mark.parametrize("single", [False, True])
def test_contract(single):
    report = check(FromDM(Countdown(single=single)), steps=50)
    assert report.violations == {}
    assert set(report.lengths) == {4}


def test_refusals():
    class Nested(Countdown):
        def observation_spec(self):
            return {"outer": {"inner": specs.Array((2,), np.float64)}}

    class Twice(Countdown):
        def observation_spec(self):
            return {"a/b": specs.Array((2,), np.float64), "a_b": specs.Array((2,), np.float64)}

    class Text(Countdown):
        def observation_spec(self):
            return {"words": specs.StringArray(())}

    for broken, words in ((Nested, "flatten"), (Twice, "'a_b'"), (Text, "numbers")):
        with pytest.raises(UnsupportedSpace, match=words):
            FromDM(broken())


def test_text_is_refused_with_its_name():
    class Talking(Countdown):
        def observation_spec(self):
            return super().observation_spec() | {"words": specs.StringArray((2,), name="words")}

    with pytest.raises(UnsupportedSpace, match="observation 'words': Got an array of objects or"):
        FromDM(Talking())


def test_declared_choices_are_classes():
    class Choosing(Countdown):
        def observation_spec(self):
            return {"city": specs.DiscreteArray(500), "pair": specs.BoundedArray((), int, 0, 499)}

    spaces = FromDM(Choosing()).obs_space
    assert spaces["city"] == Space(np.int32, (), 0, 500)
    assert spaces["pair"].dtype == np.float32
    limited = FromDM(Choosing(), max_classes=100)
    assert limited.obs_space["city"].dtype == np.float32
    assert "'city' has 500 classes" in limited.notes[0]
