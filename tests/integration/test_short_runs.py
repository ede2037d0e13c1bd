"""Short runs, one task per kind of suite: trained where spaces differ, else with random actions."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
#: Task, the package that it needs, and options that let episodes end within the budget.
RUNS = {
    "atari_breakout": ("ale_py", "--env.atari.lives discount"),
    "bsuite_catch": ("bsuite", ""),
    "bsuite_cartpole": ("bsuite", ""),
    "pinpad_three": ("numpy", "--env.pinpad.length 100"),
    "langroom_answer-only": ("langroom", "--env.langroom.length 50"),
    "gymnasium_CartPole-v1": ("gymnasium", ""),
    "gymnasium_Pendulum-v1": ("gymnasium", "--env.gymnasium.vector True"),
    "user_toy:Choices": ("gymnasium", "--env.custom.length 20"),
    "manipulation_reach_site_features": ("dm_control", "--env.manipulation.repeat 4"),
    "navix_Empty-5x5": ("navix", "--env.navix.length 50"),
}
#: Tasks on which an agent learns: choices of several kinds. Others learn from pictures and with
#: continuous actions elsewhere.
TRAINED = ("user_toy:Choices",)
TOY = pathlib.Path(__file__).parent / "user_toy.py"


@pytest.mark.slow
@pytest.mark.parametrize("task", RUNS)
def test_short_run(task, tmp_path):
    package, options = RUNS[task]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    (tmp_path / TOY.name).write_text(TOY.read_text())
    logdir = tmp_path / "run"
    command = [sys.executable, ROOT / "dreamerv3" / "main.py", "--configs", "debug"]
    command += ["--task", task, "--logdir", logdir, "--run.parallel", "False"]
    command += ["--jax.debug", "False", "--random_agent", str(task not in TRAINED)]
    command += options.split()
    done = subprocess.run(
        list(map(str, command)),
        cwd=tmp_path,
        env=dict(os.environ),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout
    assert "Ended at step 1,0" in done.stdout
    lines = [json.loads(x) for x in (logdir / "scores.jsonl").read_text().splitlines()]
    scores = [line["episode/score"] for line in lines]
    metrics = [json.loads(x) for x in (logdir / "metrics.jsonl").read_text().splitlines()]
    losses = [v for line in metrics for k, v in line.items() if k.startswith("train/loss/")]
    assert scores
    assert bool(losses) == (task in TRAINED)
    assert np.isfinite(losses).all()
