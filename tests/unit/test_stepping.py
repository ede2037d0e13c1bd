"""Whether environments step in this process or in processes of their own."""

import functools
import time

import numpy as np
import pytest

from dreamerv3.cli import factories
from dreamerv3.cli.factories import EnvMaker
from dreamerv3.cli.presets import Presets
from embodied.core.space import Space
from embodied.core.stepping.checked_env import WorkerError
from embodied.envs.dummy import Dummy
from embodied.run import stepping
from embodied.run.stepping import (
    EnvTrial,
    StandIn,
    choose,
    seconds_in_processes,
    use_processes,
)


class Counted:
    """Makes environments and remembers their indices and how often they were closed."""

    def __init__(self, env=Dummy):
        self.env, self.made, self.closed = env, [], 0

    def __call__(self, index):
        self.made.append(index)
        env = self.env()
        close = env.close

        def counted():
            self.closed += 1
            close()

        env.close = counted
        return env


class Broken(Dummy):
    """Fails at its third step."""

    def step(self, action):
        if self._count == 1:
            raise ZeroDivisionError("the env is broken")
        return super().step(action)


def unmeasured():
    raise AssertionError("There is nothing to measure here.")


@pytest.mark.parametrize(
    ("step", "waits", "cores", "other", "expected", "reason"),
    [
        (2e-5, False, 64, None, False, "0.02 ms, less than a message"),
        (2e-2, True, 1, None, True, "waits for most"),
        (2e-4, True, 8, None, True, "waits for most"),
        (2e-3, False, 1, None, False, "only one core"),
        (2e-2, False, 8, None, True, "20 ms, which 8 cores"),
        (2e-4, False, 16, 3e-4, False, "0.2 ms, and 0.3 ms with processes"),
        (2e-4, False, 16, 1.7e-4, False, "and 0.17 ms"),
        (2e-4, False, 16, 1.5e-4, True, "and 0.15 ms"),
        # 16 processes on 2 cores: 7 of 8 share one, which takes 0.175 ms.
        (2e-4, False, 2, 1.1e-4, False, "and 0.28 ms"),
        (2e-3, False, 2, 1.1e-3, True, "and 1.3 ms"),
    ],
)
def test_choice_by_known_durations(step, waits, cores, other, expected, reason):
    measure = unmeasured if other is None else lambda: other
    processes, line = choose(step, waits, 16, cores, measure)
    assert processes is expected
    where = "in processes" if expected else "in this process"
    assert line.startswith(f"Stepping 16 environments {where}: a step takes ")
    assert reason in line


@pytest.mark.parametrize(("option", "expected"), [(True, True), ("true", True), ("False", False)])
def test_the_user_decides_without_a_trial(option, expected, capsys):
    assert use_processes(option, unmeasured, 16) is expected
    assert not capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"envs": 1}, False),
        ({"envs": 16, "timeout": 60}, True),
        ({"envs": 16, "restarts": 3}, True),
    ],
)
def test_what_only_one_of_them_can_do_decides_without_a_trial(options, expected, capsys):
    assert use_processes("auto", unmeasured, **options) is expected
    assert not capsys.readouterr().out


def test_some_suites_always_have_processes():
    config = Presets.load().defaults
    needs = {
        task: EnvMaker(config.update({"task": task})).needs_processes
        for task in ("dummy_disc", "dmc_walker_walk", "minecraft_diamond", "some.module:Env")
    }
    assert [task for task, needed in needs.items() if needed] == ["minecraft_diamond"]
    assert EnvMaker(config.update({"task": "minecraft_diamond"}), evaluation=True).needs_processes


def test_other_values_are_an_error():
    with pytest.raises(ValueError, match="run.parallel 'maybe', expected auto, True or False"):
        use_processes("maybe", unmeasured, 16)


def test_the_trial_has_an_environment_of_its_own(monkeypatch, capsys):
    # Whatever the machine is doing, so that no process is started.
    monkeypatch.setattr(stepping, "usable_cores", lambda: 1)
    make = Counted()
    use_processes("auto", make, 16, timeout=600)
    assert (make.made, make.closed) == ([16], 1)
    assert capsys.readouterr().out.startswith("Stepping 16 environments in ")


@pytest.mark.parametrize("env", [Broken, functools.partial(Dummy, size=())])
def test_an_environment_that_fails_in_the_trial_ends_the_run(env):
    with pytest.raises(WorkerError, match="Error(.|\n)*tried before the run begins"):
        use_processes("auto", Counted(env), 4)


def test_an_observation_that_is_not_a_number_ends_the_run_in_the_trial():
    class Nan(Dummy):
        def step(self, action):
            return {**super().step(action), "vector": np.full(7, np.nan, np.float32)}

    with pytest.raises(WorkerError, match="key 'vector': .*NaN"):
        use_processes("auto", Counted(Nan), 4)


def test_no_further_environment_is_made_for_a_trial_if_that_takes_long(monkeypatch, capsys):
    envs = EnvMaker(Presets.load().defaults)
    envs.spaces()
    assert not envs.needs_processes
    monkeypatch.setattr(factories, "SLOW_CONSTRUCTION", 0)
    assert envs.needs_processes
    assert envs.for_evaluation().needs_processes
    monkeypatch.setattr(EnvMaker, "__call__", lambda *args: unmeasured())
    assert use_processes("auto", envs, 4)


def test_waiting_is_told_from_computing():
    class Waiting(Dummy):
        def step(self, action):
            time.sleep(0.02)
            return super().step(action)

    assert EnvTrial(Waiting, 0).waits


def test_stand_ins_step_in_processes():
    trial = EnvTrial(Dummy, 0)
    assert trial.step > 0
    assert set(trial.obs) == set(Dummy().obs_space)
    assert seconds_in_processes(trial, 2) > 0


def test_a_stand_in_keeps_the_contract():
    spaces = {
        "vector": Space(np.float32, 3),
        "reward": Space(np.float32),
        **{key: Space(bool) for key in ("is_first", "is_last", "is_terminal")},
    }
    obs = {key: np.zeros(space.shape, space.dtype) for key, space in spaces.items()}
    env = StandIn((spaces, {"reset": Space(bool)}), obs, 10)
    first = env.step({"reset": np.bool_(True)})
    assert first["is_first"]
    assert all(first[key] in space for key, space in env.obs_space.items())
