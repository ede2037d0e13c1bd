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


@pytest.fixture(scope="module")
def no_jax(tmp_path_factory):
    """A folder for the module path in which heavy packages fail to import."""
    folder = tmp_path_factory.mktemp("blocked")
    for name in ("jax", "jaxlib", "dm_control", "mujoco", "optax"):
        (folder / f"{name}.py").write_text(f"raise ImportError('{name} is blocked')\n")
    return [folder]


MISTAKES = [
    ("--configs dmc_propri", "'dmc_propri'", "'dmc_proprio'"),
    ("--run.step 5", "'run.step'", "'run.steps'"),
    ("--configs dmc_proprio --task dmc_walker_wlak", "wlak", "dmc_walker_walk"),
    ("--batch_size many", "'batch_size'", "an integer"),
    ("--seed", "--seed", "--seed VALUE"),
    (r"--.*\.unitz 5", r".*\.unitz", "units"),
    ("--configs dmc_proprio dmc_vision", "'dmc_proprio'", "'dmc_vision'"),
    ("--run.num_envs 5", "'run.num_envs'", "'run.envs'"),
    ("doktor", "Got 'doktor'", "'doctor'"),
]
INFORMATION = [
    ("--help", "--agent.imag_length 15"),
    ("--list_configs", "9,738,019 parameters"),
    ("--list_tasks", "dmc_walker_walk"),
    ("--print_config --configs dmc_proprio size12m", "(preset size12m)"),
    ("--help", "check-env  "),
    ("train --list_configs", "9,738,019 parameters"),
    ("check-env toy_cue", "cue "),
    ("replay --help", "inspect"),
    ("doctor --help", "--agent.imag_length 15"),
    ("plot --help", "--out"),
    ("table --help", "--at"),
    ("view --help", "--export"),
]
#: Runs command lines one after another, since a process for each would take minutes in total.
PROGRAM = """
import contextlib, io, json, sys
from dreamerv3.main import main
answers = {}
for line in json.load(sys.stdin):
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            code = main(line.split()) or 0
        except SystemExit as end:
            code = end.code or 0
    answers[line] = code, out.getvalue(), errors.getvalue()
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def answers(no_jax, tmp_path_factory):
    """Exit code, output and errors of each command line, where JAX cannot be imported."""
    folder = tmp_path_factory.mktemp("work")
    lines = [line for line, *_ in MISTAKES + INFORMATION]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*no_jax, ROOT]))},
        cwd=folder,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert not list(folder.iterdir())
    return json.loads(done.stdout)


@pytest.mark.parametrize(("line", "offender", "suggestion"), MISTAKES)
def test_mistakes_exit_with_2_before_heavy_imports(answers, line, offender, suggestion):
    code, output, errors = answers[line]
    assert code == 2
    assert output == ""
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    assert offender in errors
    assert suggestion in errors


def test_a_mistake_of_the_program_itself(no_jax, tmp_path):
    result = run(MAIN, "--run.step", "5", "--logdir", tmp_path / "run", blocked=no_jax)
    assert result.returncode == 2
    assert result.stdout == ""
    assert re.fullmatch("error: .*'run.step'.*\n", result.stderr)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("line", "expected"), INFORMATION)
def test_information_needs_nothing_heavy(answers, line, expected):
    code, output, errors = answers[line]
    assert code == 0, errors
    assert expected in output


@pytest.mark.parametrize(
    "line",
    [
        "dreamerv3/main.py --help",
        pytest.param("dreamerv3/main.py --list_configs", marks=pytest.mark.slow),
        pytest.param("dreamerv3/main.py --list_tasks", marks=pytest.mark.slow),
        pytest.param("dreamerv3/main.py --print_config", marks=pytest.mark.slow),
        "dreamerv3/main.py plot --help",
        pytest.param("dreamerv3/main.py table --help", marks=pytest.mark.slow),
        pytest.param("dreamerv3/main.py view --help", marks=pytest.mark.slow),
        "dreamerv3/main.py check-env toy_cue",
        pytest.param("dreamerv3/main.py doctor", marks=pytest.mark.slow),
        pytest.param("dreamerv3/main.py replay --help", marks=pytest.mark.slow),
        "scores/plot.py --help",
        pytest.param("-m embodied.envs.check toy_cue", marks=pytest.mark.slow),
        "-m embodied.replay --help",
        pytest.param("-m dreamerv3.doctor --help", marks=pytest.mark.slow),
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


@pytest.mark.slow
def test_debug_preset_ends_with_scores(tmp_path):
    pytest.importorskip("dm_control")
    result = run(
        MAIN, "--configs", "dmc_proprio", "debug", "--random_agent", "True",
        "--logdir", tmp_path / "run", timeout=600,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert len((tmp_path / "run" / "scores.jsonl").read_text().splitlines()) >= 4


@pytest.mark.slow
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
