"""The control suite for real: observations, episodes, seeds, action repeat and pictures."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import embodied
from dreamerv3.cli import command_line, factories
from embodied.envs import dmc_tasks, gl, registry
from embodied.envs.check import check
from embodied.envs.errors import EnvError

suite = pytest.importorskip("dm_control.suite")

RENDERS = gl.choose_backend(pictures=True) != gl.DISABLED
needs_gl = pytest.mark.skipif(not RENDERS, reason="no OpenGL backend works here")
PROPRIO = {"image": False}


def play(env, steps, seed=0, reset=()):
    """Observations of a fixed sequence of random actions, the first step being a reset."""
    rng = np.random.default_rng(seed)
    space = env.act_space["action"]
    actions = rng.uniform(-1, 1, (steps, *space.shape)).astype(np.float32)
    return [
        env.step({"action": action, "reset": np.bool_(step == 0 or step in reset)})
        for step, action in enumerate(actions)
    ]


def run_script(script, **environ):
    """Run a script in a fresh process and return what it prints; it must not write to stderr."""
    clean = {key: value for key, value in os.environ.items() if key != "MUJOCO_GL"}
    root = f"{Path(embodied.__file__).parents[1]}{os.pathsep}{clean.get('PYTHONPATH', '')}"
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)],
        env=clean | {"PYTHONPATH": root} | environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout.strip()


def test_table_of_tasks_equals_the_suite():
    ours = {(domain, task) for domain, tasks in dmc_tasks.TASKS.items() for task in tasks}
    assert ours == set(suite.ALL_TASKS)


def test_spaces_of_walker_are_those_of_the_public_configuration():
    env = registry.make("dmc_walker_walk", PROPRIO)
    shapes = {key: space.shape for key, space in env.obs_space.items() if not key.startswith("is_")}
    assert shapes == {"orientations": (14,), "velocity": (9,), "height": (), "reward": ()}
    action = env.act_space["action"]
    assert action.dtype == np.float32
    assert (action.low.tolist(), action.high.tolist()) == ([-1] * 6, [1] * 6)


@pytest.mark.parametrize(
    "task",
    ["walker_walk", "cup_catch", "cheetah_run", "finger_spin", "lqr_lqr_2_1", "point_mass_easy"],
)
def test_contract(task):
    env = registry.make(f"dmc_{task}", PROPRIO, seed=3)
    assert check(env, steps=200).violations == {}
    env.close()


def test_unlimited_actuators_have_an_unbounded_action():
    action = registry.make("dmc_lqr_lqr_2_1", PROPRIO).act_space["action"]
    assert np.isinf(action.high).all()
    assert np.abs(action.sample(np.random.default_rng(0))).max() < 10


SUITE = [name for name in dmc_tasks.names() if name.partition("_")[0] not in dmc_tasks.OTHERS]


@pytest.mark.slow
@pytest.mark.parametrize("task", SUITE[::5])
def test_tasks(task):
    env = registry.make(f"dmc_{task}", {"image": RENDERS, "size": (16, 16)})
    assert check(env, steps=30).violations == {}
    env.close()


def test_short_and_long_name_are_the_same_task():
    short = play(registry.make("dmc_cup_catch", PROPRIO), 20)
    full = play(registry.make("dmc_ball_in_cup_catch", PROPRIO), 20)
    assert all((a["position"] == b["position"]).all() for a, b in zip(short, full, strict=True))


def test_observations_and_rewards_are_the_suites():
    env = registry.make("dmc_cartpole_swingup", {"image": False, "seed": 5})
    own = suite.load("cartpole", "swingup", task_kwargs={"random": 5})
    rng = np.random.default_rng(1)
    expected, found = own.reset(), env.step({"action": np.zeros(1, np.float32), "reset": True})
    for _ in range(100):
        assert set(expected.observation) == {"position", "velocity"}
        for key, value in expected.observation.items():
            assert (found[key] == value.astype(np.float32)).all()
        assert found["reward"] == np.float32(expected.reward or 0)
        action = rng.uniform(-1, 1, 1).astype(np.float32)
        expected = own.step(action.astype(np.float64))
        found = env.step({"action": action, "reset": False})


def test_episodes_last_1000_frames_and_do_not_terminate():
    env = registry.make("dmc_cartpole_balance", PROPRIO)
    for _ in range(2):
        obs = play(env, 1001)
        assert [step for step, x in enumerate(obs) if x["is_last"]] == [1000]
        assert [step for step, x in enumerate(obs) if x["is_first"]] == [0]
        assert not any(x["is_terminal"] for x in obs)


def test_convergence_of_the_regulator_is_terminal():
    env = registry.make("dmc_lqr_lqr_2_1", PROPRIO)
    obs = env.step({"action": np.zeros(1, np.float32), "reset": True})
    env.physics.data.qpos[:] = 0
    env.physics.data.qvel[:] = 0
    env.physics.forward()
    obs = env.step({"action": np.zeros(1, np.float32), "reset": False})
    assert obs["is_last"]
    assert obs["is_terminal"]


@pytest.mark.parametrize("repeat", [2, 3])
def test_action_repeat_sums_rewards_and_does_not_repeat_resets(repeat):
    single = registry.make("dmc_cheetah_run", {"image": False, "seed": 1})
    several = registry.make("dmc_cheetah_run", {"image": False, "seed": 1, "repeat": repeat})
    rng = np.random.default_rng(0)
    for _ in range(2):
        action = {"action": np.zeros(6, np.float32), "reset": True}
        frames, step = single.step(action), several.step(action)
        assert (frames["position"] == step["position"]).all()
        for _ in range(30):
            action = {"action": rng.uniform(-1, 1, 6).astype(np.float32), "reset": False}
            rewards = []
            for _ in range(repeat):
                frames = single.step(action)
                rewards.append(frames["reward"])
            step = several.step(action)
            assert (frames["position"] == step["position"]).all()
            assert np.isclose(step["reward"], np.sum(rewards), rtol=1e-6)


def test_action_repeat_shortens_episodes():
    env = registry.make("dmc_cartpole_balance", {"image": False, "repeat": 2})
    obs = play(env, 502, reset=[501])
    assert [step for step, x in enumerate(obs) if x["is_last"]] == [500]
    assert [step for step, x in enumerate(obs) if x["is_first"]] == [0, 501]


def test_seeds():
    def positions(seed, index=0):
        obs = play(
            registry.make("dmc_walker_walk", PROPRIO, seed=seed, index=index), 30, reset=[15]
        )
        return np.stack([x["orientations"] for x in obs])

    assert (positions(1) == positions(1)).all()
    assert (positions(1) != positions(2)).any()
    assert (positions(1, 0) != positions(1, 1)).any()
    assert (positions(1)[0] != positions(1)[15]).any()


def test_something_must_be_observed():
    with pytest.raises(EnvError, match="proprio"):
        registry.make("dmc_walker_walk", {"image": False, "proprio": False})


NO_CONTEXT = """
    import pathlib
    import sys
    from embodied.envs import registry
    env = registry.make("dmc_walker_walk", {"image": False})
    for step in range(20):
        env.step({"action": [0] * 6, "reset": step == 0})
    from dm_control import _render
    graphics = [name for name in sys.modules if name.split('.')[0] in ('OpenGL', 'glfw')]
    maps = pathlib.Path('/proc/self/maps').read_text().split()
    libraries = [word for word in maps if 'libEGL' in word or 'libGL' in word]
    print(_render.BACKEND, graphics, libraries, 'jax' in sys.modules)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks at the loaded libraries of the process")
@pytest.mark.parametrize("environ", [{}, {"MUJOCO_GL": "egl"}])
def test_proprio_loads_no_opengl(environ):
    assert run_script(NO_CONTEXT, **environ) == "off [] [] False"


def test_pictures_without_opengl_fail_with_one_sentence():
    script = """
        from embodied.envs import errors, gl, registry
        gl.backend_works = lambda backend, libraries: False
        try:
            registry.make("dmc_walker_walk", {"proprio": False})
        except errors.RenderingUnavailable as error:
            print(error)
        env = registry.make("dmc_walker_walk", {"image": False, "log_image_every": 1})
        print("log/image" in env.obs_space)
    """
    message, logged = run_script(script).split("\n")
    for words in ("libegl1 libgl1-mesa-dri", "libosmesa6", "MUJOCO_GL"):
        assert words in message
    assert logged == "False"


@needs_gl
def test_pictures():
    env = registry.make("dmc_walker_walk", {"proprio": False})
    assert set(env.obs_space) == {"image", "reward", "is_first", "is_last", "is_terminal"}
    obs = play(env, 5)
    for x in obs:
        assert set(x) == set(env.obs_space)
        assert env.obs_space["image"].explain(x["image"]) is None
        assert x["image"].shape == (64, 64, 3)
        assert x["image"].std() > 5
    assert (obs[0]["image"] != obs[4]["image"]).any()
    env.close()


@needs_gl
def test_height_comes_before_width_and_both_kinds_can_be_observed():
    env = registry.make("dmc_walker_walk", {"size": (24, 48)})
    obs = play(env, 2)[-1]
    assert obs["image"].shape == (24, 48, 3)
    assert obs["orientations"].shape == (14,)
    assert check(env, steps=20).violations == {}


@needs_gl
@pytest.mark.slow
def test_cameras():
    def picture(task, **options):
        env = registry.make(task, {"size": (32, 32), "seed": 0, **options})
        return play(env, 1)[0]["image"]

    usual = picture("dmc_walker_walk")
    assert (usual == picture("dmc_walker_walk", camera=0)).all()
    assert (usual != picture("dmc_walker_walk", camera=1)).any()
    assert (picture("dmc_quadruped_run") == picture("dmc_quadruped_run", camera=2)).all()
    with pytest.raises(EnvError, match="camera 9"):
        picture("dmc_walker_walk", camera=9)


@needs_gl
@pytest.mark.slow
def test_pictures_are_logged_in_every_third_episode():
    options = {"image": False, "log_image_every": 3, "size": (16, 16)}
    env = registry.make("dmc_walker_walk", options)
    starts = range(0, 30, 3)
    logged = ["log/image" in x for x in play(env, 30, reset=starts)]
    assert logged == [step // 3 % 3 == 0 for step in range(30)]
    assert env.obs_space["log/image"].shape == (16, 16, 3)
    assert "image" not in env.obs_space
    assert check(env, steps=20).violations == {}
    observed = registry.make("dmc_walker_walk", {"log_image_every": 1})
    assert "log/image" not in observed.obs_space


@needs_gl
@pytest.mark.parametrize(
    ("flags", "drawing"),
    [
        ((), []),
        (("--env.dmc.log_image_every", "1"), ["training 0"]),
        (("--eval.video", "True"), ["evaluation 0"]),
    ],
)
def test_one_environment_draws_for_videos(flags, drawing):
    config = command_line.parse(["--configs", "dmc_proprio", *flags]).config
    makers = {"training": factories.make_env, "evaluation": factories.make_eval_env}
    found = []
    for name, make in makers.items():
        for index in range(2):
            env = make(config, index)
            found += [f"{name} {index}"] if "log/image" in env.obs_space else []
            env.close()
    assert found == drawing


@needs_gl
@pytest.mark.slow
def test_rendering_can_start_after_a_proprio_environment():
    script = """
        import os
        from embodied.envs import registry
        step = {"action": [0] * 6, "reset": True}
        registry.make("dmc_walker_walk", {"image": False}).step(step)
        print(os.environ.get("MUJOCO_GL"), os.environ.get("PYOPENGL_PLATFORM"))
        print(registry.make("dmc_walker_walk", {}).step(step)["image"].std() > 5)
        print(os.environ.get("MUJOCO_GL"), os.environ.get("PYOPENGL_PLATFORM"))
    """
    assert run_script(script).split("\n") == ["None None", "True", "None None"]


def test_manipulation_by_its_short_name_needs_no_pictures():
    env = registry.make("dmc_manip_reach_site", {"image": False}, seed=1)
    report = check(env, steps=8)
    assert report.violations == {}
    assert "jaco_arm_joints_vel" in env.obs_space
    env.close()


@pytest.mark.slow
@needs_gl
def test_tasks_of_the_rodent():
    env = registry.make("dmc_rodent_two_touch", {"size": (16, 24)}, seed=1)
    assert check(env, steps=4).violations == {}
    assert env.obs_space["image"].shape == (16, 24, 3)
    assert "walker_egocentric_camera" not in env.obs_space
    env.close()


def test_names_beside_the_suite_are_tasks_of_dm_control():
    manipulation = pytest.importorskip("dm_control.manipulation")
    rodent = pytest.importorskip("dm_control.locomotion.examples.basic_rodent_2020")
    assert {f"{name}_features" for name in dmc_tasks.OTHERS["manip"]} <= set(manipulation.ALL)
    assert all(hasattr(rodent, f"rodent_{name}") for name in dmc_tasks.OTHERS["rodent"])
