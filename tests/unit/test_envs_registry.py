"""Task names, options, seeds and import paths."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

from embodied.core.interfaces import Env
from embodied.envs import catalog, dmc_tasks, registry
from embodied.envs.dummy import Dummy
from embodied.envs.errors import EnvError, MissingExtra, UnknownOption, UnknownTask
from embodied.envs.toy import Toy

ENV_MODULE = """
import numpy as np
from embodied.core.interfaces import Env
from embodied.core.space import Space

class Counting(Env):
    def __init__(self, start: int = 0, seed: int = 0, index: int = 0):
        self.start, self.seed, self.index = start, seed, index
        self.count = 0
    @property
    def obs_space(self):
        flags = {key: Space(bool) for key in ('is_first', 'is_last', 'is_terminal')}
        return {'count': Space(np.int32, (), 0, 1000), 'reward': Space(np.float32), **flags}
    @property
    def act_space(self):
        return {'action': Space(np.int32, (), 0, 2), 'reset': Space(bool)}
    def step(self, action):
        self.count = self.start if action['reset'] else self.count + 1
        return {
            'count': np.int32(self.count), 'reward': np.float32(0),
            'is_first': np.bool_(action['reset']), 'is_last': np.bool_(False),
            'is_terminal': np.bool_(False),
        }

not_callable = 3
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A user's module in the current directory, which is not on the import path."""
    name = f"user_envs_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(ENV_MODULE))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield name
    sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("task", "suite", "rest"),
    [
        ("dmc_walker_walk", "dmc", "walker_walk"),
        ("dmc_ball_in_cup_catch", "dmc", "ball_in_cup_catch"),
        ("toy_cue_shuffled", "toy", "cue_shuffled"),
        ("gymnasium_CartPole-v1", "gymnasium", "CartPole-v1"),
        ("my.pkg.mod:Outer.Inner", "custom", "my.pkg.mod:Outer.Inner"),
        ("mod_with_underscore:MyEnv", "custom", "mod_with_underscore:MyEnv"),
    ],
)
def test_split(task, suite, rest):
    assert registry.split(task) == (suite, rest)
    assert registry.suite_of(task) == suite


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("dcm_walker_walk", ["'dcm'", "dmc_walker_walk"]),
        ("walker_walk", ["'walker'", "dmc_walker_walk"]),
        ("dmc", ["'dmc'", "dmc_walker_walk"]),
        ("dmc_walker_wlak", ["'walker_wlak'", "dmc_walker_walk"]),
        ("dmc_cup_catsh", ["'cup_catsh'", "dmc_cup_catch"]),
        ("toy_memroy", ["'memroy'", "toy_memory"]),
        ("", ["''"]),
        ("no_such_module_at_all:Env", ["no_such_module_at_all"]),
        ("embodied.envs.no_such:Env", ["embodied.envs.no_such"]),
    ],
)
def test_unknown_task_names_the_closest(task, words):
    with pytest.raises(UnknownTask) as error:
        registry.check_task(task)
    message = str(error.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_listing_has_every_task_and_all_of_them_pass_the_check():
    names = registry.tasks()
    assert len(names) == len(set(names))
    text = registry.listing()
    words = set(text.split())
    assert max(len(line) for line in text.splitlines()) <= 100
    for name in names:
        suite = registry.suite_of(name)
        if f"{suite} (available)" in text:
            registry.check_task(name)
        else:
            with pytest.raises(MissingExtra, match=suite):
                registry.check_task(name)
        assert name in words
    for suite in catalog.SUITES:
        assert suite in text


def test_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr(
        registry.importlib.util, "find_spec", lambda name: None if name == "dm_control" else object
    )
    with pytest.raises(MissingExtra, match=r"dm_control.*'dmc'"):
        registry.check_task("dmc_walker_walk")
    registry.check_task("dummy_disc")
    assert "dmc (needs dm_control: extra 'dmc')" in registry.listing()


def test_check_task_imports_nothing_heavy():
    script = """
        import sys
        from embodied.envs import registry
        text = registry.listing()
        for task in registry.tasks():
            if f'{registry.suite_of(task)} (available)' in text:
                registry.check_task(task)
        registry.check_task('gymnasium_CartPole-v1')
        registry.check_task('embodied.envs.dummy:Dummy')
        heavy = {'jax', 'dm_control', 'mujoco', 'gymnasium', 'gym', 'dm_env', 'OpenGL'}
        print(sorted(heavy & set(sys.modules)))
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert result.stdout.strip() == "[]"


def test_options_reach_the_constructor_and_unknown_ones_are_refused():
    env = registry.make("dummy_disc", {"size": (8, 12), "length": 3})
    assert isinstance(env, Dummy)
    assert env.obs_space["image"].shape == (8, 12, 3)
    with pytest.raises(UnknownOption, match=r"'lenght'.*'length'"):
        registry.make("dummy_disc", {"lenght": 3})
    with pytest.raises(UnknownOption, match="task"):
        registry.make("dummy_disc", {"task": "cont"})


def test_instances_have_their_own_seeds():
    def cues(seed, index):
        env = registry.make("toy_cue", seed=seed, index=index)
        actions = [{"action": 0, "reset": step == 0} for step in range(20)]
        return np.stack([env.step(action)["cue"] for action in actions])

    assert (cues(0, 0) == cues(0, 0)).all()
    assert (cues(0, 0) != cues(0, 1)).any()
    assert (cues(0, 1) != cues(1, 0)).any()
    seeds = {registry.instance_seed(seed, index) for seed in range(-20, 20) for index in range(20)}
    assert len(seeds) == 800
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_seed_in_the_options_wins():
    first = registry.make("toy_cue", {"seed": 7}, seed=1, index=1).step({"reset": True})
    second = Toy("cue", seed=7).step({"reset": True})
    assert first["cue"] == second["cue"]


def test_import_path(module):
    task = f"{module}:Counting"
    registry.check_task(task)
    assert module not in sys.modules
    env = registry.make(task, {"start": 5}, seed=3, index=2)
    assert isinstance(env, Env)
    assert env.index == 2
    assert env.seed == registry.instance_seed(3, 2)
    assert env.step({"reset": True, "action": 0})["count"] == 5
    with pytest.raises(UnknownOption, match=r"'strat'.*'start'"):
        registry.make(task, {"strat": 5})
    with pytest.raises(UnknownTask, match=r"'Countin'.*'Counting'"):
        registry.make(f"{module}:Countin")
    with pytest.raises(EnvError, match="int"):
        registry.make(f"{module}:not_callable")


def test_import_path_of_something_else_is_refused():
    with pytest.raises(EnvError, match="expected an environment"):
        registry.make("collections:OrderedDict")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("walker_walk", ("walker", "walk")),
        ("ball_in_cup_catch", ("ball_in_cup", "catch")),
        ("cup_catch", ("ball_in_cup", "catch")),
        ("cartpole_swingup_sparse", ("cartpole", "swingup_sparse")),
        ("humanoid_run_pure_state", ("humanoid", "run_pure_state")),
        ("humanoid_CMU_run", ("humanoid_CMU", "run")),
        ("point_mass_easy", ("point_mass", "easy")),
        ("lqr_lqr_2_1", ("lqr", "lqr_2_1")),
    ],
)
def test_control_suite_names(name, expected):
    assert dmc_tasks.parse(name) == expected


def test_every_control_suite_name_parses_to_itself():
    for domain, tasks in dmc_tasks.TASKS.items():
        for task in tasks:
            assert dmc_tasks.parse(f"{domain}_{task}") == (domain, task)
    with pytest.raises(UnknownTask, match="'cup'"):
        dmc_tasks.parse("cup")
