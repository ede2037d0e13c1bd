"""The program as a user starts it: exit codes, messages, and what must not be imported."""

import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parents[2]
MAIN = ROOT / "dreamerv3" / "main.py"


def run(*args, blocked=(), cwd=None, path=(), timeout=120):
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    env["PYTHONPATH"] = os.pathsep.join(map(str, [*blocked, *path]))
    return subprocess.run(
        [sys.executable, *map(str, args)],
        capture_output=True,
        text=True,
        env=env,
        cwd=cwd,
        timeout=timeout,
    )


@pytest.fixture
def no_jax(tmp_path):
    """A folder for the module path in which heavy packages fail to import."""
    folder = tmp_path / "blocked"
    folder.mkdir()
    for name in ("jax", "jaxlib", "dm_control", "mujoco", "optax"):
        (folder / f"{name}.py").write_text(f"raise ImportError('{name} is blocked')\n")
    return [folder]


@pytest.mark.parametrize(
    ("line", "offender", "suggestion"),
    [
        ("--configs dmc_propri", "'dmc_propri'", "'dmc_proprio'"),
        ("--run.step 5", "'run.step'", "'run.steps'"),
        ("--configs dmc_proprio --task dmc_walker_wlak", "wlak", "dmc_walker_walk"),
        ("--batch_size many", "'batch_size'", "an integer"),
        ("--seed", "--seed", "--seed VALUE"),
        (r"--.*\.unitz 5", r".*\.unitz", "units"),
        ("--configs dmc_proprio dmc_vision", "'dmc_proprio'", "'dmc_vision'"),
        ("--run.num_envs 5", "'run.num_envs'", "'run.envs'"),
    ],
)
def test_mistakes_exit_with_2_before_heavy_imports(no_jax, tmp_path, line, offender, suggestion):
    result = run(MAIN, *line.split(), "--logdir", tmp_path / "run", blocked=no_jax)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert offender in result.stderr
    assert suggestion in result.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--help", "--agent.imag_length 15"),
        ("--list_configs", "9,738,019 parameters"),
        ("--list_tasks", "dmc_walker_walk"),
        ("--print_config --configs dmc_proprio size12m", "(preset size12m)"),
    ],
)
def test_information_needs_nothing_heavy(no_jax, tmp_path, line, expected):
    result = run(MAIN, *line.split(), blocked=no_jax, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert expected in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["blocked"]


@pytest.mark.parametrize(
    "line",
    [
        "dreamerv3/main.py --help",
        "dreamerv3/main.py --list_configs",
        "dreamerv3/main.py --list_tasks",
        "dreamerv3/main.py --print_config",
        "dreamerv3/main.py plot --help",
        "dreamerv3/main.py table --help",
        "dreamerv3/main.py view --help",
        "dreamerv3/main.py check-env toy_cue",
        "dreamerv3/main.py doctor",
        "dreamerv3/main.py replay --help",
        "scores/plot.py --help",
        "-m embodied.envs.check toy_cue",
        "-m embodied.replay --help",
        "-m dreamerv3.doctor --help",
    ],
)
def test_a_reader_that_leaves_causes_no_traceback(line):
    reader, writer = os.pipe()
    command = [sys.executable, *line.split()]
    process = subprocess.Popen(command, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    os.close(reader)  # Before anything is written, which takes no output that fills the pipe.
    errors = process.communicate(timeout=120)[1]
    assert not errors
    assert process.returncode in (0, 128 + signal.SIGPIPE)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--help", "check-env  "),
        ("train --list_configs", "9,738,019 parameters"),
        ("check-env toy_cue", "cue "),
        ("replay --help", "inspect"),
        ("doctor --help", "--agent.imag_length 15"),
        ("plot --help", "--out"),
        ("table --help", "--at"),
        ("view --help", "--export"),
    ],
)
def test_commands_need_nothing_heavy(no_jax, line, expected):
    result = run(MAIN, *line.split(), blocked=no_jax)
    assert result.returncode == 0, result.stderr
    assert expected in result.stdout


def test_unknown_command(no_jax):
    result = run(MAIN, "doktor", blocked=no_jax)
    assert result.returncode == 2
    assert re.fullmatch(r"error: Got 'doktor', .*'doctor'.*\n", result.stderr)


def test_a_platform_that_is_not_there(tmp_path):
    if importlib.util.find_spec("jax_cuda12_plugin") or importlib.util.find_spec("libtpu"):
        pytest.skip("an accelerator may be here")
    result = run(MAIN, "--configs", "debug", "--jax.platform", "cuda", "--logdir", tmp_path / "run")
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert "error: Got jax.platform='cuda'" in result.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_debug_preset_runs(tmp_path):
    logdir = tmp_path / "run"
    result = run(
        MAIN, "--configs", "debug", "--run.steps", "200", "--env.dummy.length", "40",
        "--logdir", logdir, cwd=tmp_path, timeout=600,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert "JAX runs on cpu" in result.stdout
    lines = [json.loads(line) for line in (logdir / "metrics.jsonl").read_text().splitlines()]
    assert any("train/loss/dyn" in line for line in lines)
    scores = [json.loads(line) for line in (logdir / "scores.jsonl").read_text().splitlines()]
    assert scores and all(set(line) == {"step", "episode/score"} for line in scores)
    assert "batch_size: 8" in (logdir / "config.yaml").read_text()


def test_debug_preset_ends_with_scores(tmp_path):
    pytest.importorskip("dm_control")
    result = run(
        MAIN, "--configs", "dmc_proprio", "debug", "--random_agent", "True",
        "--logdir", tmp_path / "run", timeout=600,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert len((tmp_path / "run" / "scores.jsonl").read_text().splitlines()) >= 4


def test_wheel_has_the_options_and_the_scores_scripts(no_jax, tmp_path):
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = (
        "from dreamerv3 import main; from dreamerv3.cli import presets; print(presets.find());"
        "import scores.plot, scores.table, scores.view;"
        "from scores.curves.baselines import load_baselines; print(load_baselines().aliases);"
        "main.main(['--list_configs'])"
    )
    result = run("-P", "-c", code, blocked=no_jax, path=[tmp_path / "site"], cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    found, _, rest = result.stdout.partition("\n")
    assert found == str(tmp_path / "site" / "dreamerv3" / "configs.yaml")
    assert "dmc_ball_in_cup_catch" in rest and "size12m" in rest
