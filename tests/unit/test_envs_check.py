"""The check of the Env contract finds each way of breaking it."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import embodied
from embodied.core.interfaces import Env
from embodied.core.space import Space
from embodied.envs.check import check, main

USER_MODULE = """
import gymnasium
import numpy as np

class Guess(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
    action_space = gymnasium.spaces.MultiDiscrete([2, 3])

    def __init__(self, length: int = 4, scale: float = 1.0):
        self.length, self.scale = length, scale

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self.np_random.random(2, np.float32) * self.scale, {}

    def step(self, action):
        self.count += 1
        obs = self.np_random.random(2, np.float32) * np.float32(self.scale)
        return obs, float(action[0]), False, self.count >= self.length, {}
"""


class Sound(Env):
    """Fulfils the contract; subclasses break one clause each."""

    def __init__(self):
        self.count = 0

    @property
    def obs_space(self):
        flags = {key: Space(bool) for key in ("is_first", "is_last", "is_terminal")}
        vector = Space(np.float32, (2,), -1, 1)
        return {
            "vector": vector,
            "log/extra": Space(np.float32),
            "reward": Space(np.float32),
        } | flags

    @property
    def act_space(self):
        return {"action": Space(np.int32, (), 0, 3), "reset": Space(bool)}

    def step(self, action):
        assert action["action"] in self.act_space["action"]
        self.count = 0 if action["reset"] else self.count + 1
        return {
            "vector": np.zeros(2, np.float32),
            "reward": np.float32(self.count > 0),
            "is_first": np.bool_(self.count == 0),
            "is_last": np.bool_(self.count == 7),
            "is_terminal": np.bool_(self.count == 7),
        }


def broken(**changes):
    """An env whose observations are changed after `after` steps."""

    class Broken(Sound):
        def step(self, action):
            obs = super().step(action)
            if self.count == 3:
                obs |= changes
            return obs

    return Broken()


def test_sound_environment_passes():
    report = check(Sound(), steps=100)
    assert report.violations == {}
    assert report.steps == 100
    assert set(report.lengths) == {7}
    assert report.terminals == len(report.lengths)
    assert report.ranges["reward"].low == 0
    assert report.ranges["reward"].high == 1
    lines = report.text().splitlines()
    assert lines[1].split() == ["vector", "float32", "(2,)", "-1", "to", "1", "0", "to", "0"]


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"vector": np.zeros(3, np.float32)}, "vector value", "shape (2,), got (3,)"),
        ({"vector": np.zeros(2)}, "vector value", "float32, got float64"),
        ({"vector": np.float32([0, 2])}, "vector value", "got 2"),
        ({"vector": np.float32([0, np.nan])}, "vector value", "NaN"),
        ({"vector": np.array([None, 1])}, "vector value", "object"),
        ({"vector": [[1, 2], [3]]}, "vector value", "ragged"),
        ({"reward": 1.0}, "reward value", "float32"),
        ({"reward": np.float32(np.inf)}, "reward value", "finite"),
        ({"is_first": np.bool_(True), "reward": np.float32(0)}, "is_first", "without"),
        ({"is_terminal": np.bool_(True)}, "is_terminal", "without is_last"),
        ({"surprise": np.float32(0)}, "surprise extra", "not declared"),
    ],
)
def test_each_violation_is_named_with_its_step(changes, kind, words):
    report = check(broken(**changes), steps=30)
    assert list(report.violations) == [kind]
    count, first, text = report.violations[kind]
    assert first == 3
    assert count >= 2
    assert words in text
    assert words in report.text()


def test_missing_key():
    class Missing(Sound):
        def step(self, action):
            obs = super().step(action)
            del obs["vector"]
            return obs

    assert list(check(Missing(), 20).violations) == ["vector missing"]


def test_reset_that_is_not_honoured():
    class Stubborn(Sound):
        def step(self, action):
            start = self.count == 7 or not hasattr(self, "begun")
            self.begun = True
            return super().step({**action, "reset": start})

    assert "reset" in check(Stubborn(), 40).violations


def test_reward_of_the_first_step():
    class Eager(Sound):
        def step(self, action):
            return super().step(action) | {"reward": np.float32(1)}

    assert list(check(Eager(), 20).violations) == ["reward"]


def test_arrays_that_are_reused():
    class Reusing(Sound):
        buffer = np.zeros(2, np.float32)

        def step(self, action):
            self.buffer += np.float32(1e-3)
            return super().step(action) | {"vector": self.buffer}

    assert list(check(Reusing(), 20).violations) == ["vector aliased"]


def test_exception_and_tuple_end_the_check():
    class Raising(Sound):
        def step(self, action):
            if self.count == 2:
                raise KeyError("lost")
            return super().step(action)

    class Tuple(Sound):
        def step(self, action):
            return super().step(action), {}

    report = check(Raising(), 20)
    assert report.violations["exception KeyError"][1] == 3
    assert "KeyError: 'lost'" in report.text()
    assert "expected a dict, got tuple" in check(Tuple(), 20).text()


def test_spaces_that_lack_what_every_environment_has():
    class NoReset(Sound):
        @property
        def act_space(self):
            return {"action": Space(np.int32, (), 0, 3)}

    class WideReward(Sound):
        @property
        def obs_space(self):
            return super().obs_space | {"reward": Space(np.float64)}

    class Blind(Sound):
        @property
        def obs_space(self):
            return {key: space for key, space in super().obs_space.items() if key != "vector"}

        def step(self, action):
            return {key: x for key, x in super().step(action).items() if key != "vector"}

    class Raising(Sound):
        @property
        def obs_space(self):
            raise RuntimeError("not ready")

    assert list(check(NoReset()).violations) == ["reset"]
    assert list(check(WideReward()).violations) == ["reward"]
    assert list(check(Blind()).violations) == ["observations"]
    assert "not ready" in check(Raising()).text()


def test_command_line(capsys):
    assert main(["toy_cue", "--steps", "50"]) == 0
    assert "violations 0" in capsys.readouterr().out
    assert main(["dummy_disc", "--size", "8", "10", "--length=5"]) == 0
    out = capsys.readouterr().out
    assert "(8, 10, 3)" in out
    assert "lengths 5 to 5" in out
    assert main(["toy_que"]) == 2
    assert "toy_cue" in capsys.readouterr().err
    assert main(["toy_cue", "--sed", "3"]) == 2
    assert "'seed'" in capsys.readouterr().err


def test_user_module_by_import_path(tmp_path):
    pytest.importorskip("gymnasium")
    (tmp_path / "user_guess.py").write_text(textwrap.dedent(USER_MODULE))
    command = [sys.executable, "-W", "error", "-m", "embodied.envs.check", "user_guess:Guess"]
    environ = os.environ | {"PYTHONPATH": str(Path(embodied.__file__).parents[1])}

    def run(*more):
        return subprocess.run(
            [*command, *more],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    good = run("--length", "6")
    assert good.returncode == 0, good.stderr
    assert "lengths 6 to 6" in good.stdout
    assert "action action  int32" in good.stdout
    bad = run("--scale", "3")
    assert bad.returncode == 1
    assert "vector value" in bad.stdout
    wrong = run("--lenght", "6")
    assert wrong.returncode == 2
    assert "'length'" in wrong.stderr


def test_the_check_goes_on_after_an_error_and_names_the_users_line():
    class Fragile(Sound):
        def step(self, action):
            obs = super().step(action)
            if self.count == 2:
                raise ValueError("lost")
            return obs | {"vector": np.float32([0, 5])}

    report = check(Fragile(), 40)
    assert set(report.violations) == {"exception ValueError", "vector value"}
    assert report.violations["exception ValueError"][0] > 5
    assert "test_envs_check.py, line" in report.violations["exception ValueError"][2]
    assert report.steps == 40

    class Helpless(Sound):
        def step(self, action):
            raise ValueError("lost")

    assert check(Helpless(), 40).steps == 1


def test_a_constructor_that_fails(capsys):
    assert main(["dummy_disc", "--size", "many"]) == 1
    assert "The environment cannot be made: " in capsys.readouterr().err
