"""A user's Gymnasium environments by import path, from the command line (reports 8 and 14)."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from dreamerv3 import main

ROOT = pathlib.Path(__file__).parents[2]
TOY = pathlib.Path(__file__).parent / "user_toy.py"

pytest.importorskip("gymnasium")


@pytest.fixture
def folder(tmp_path):
    """Folder outside of the package with the user's module."""
    (tmp_path / TOY.name).write_text(TOY.read_text())
    return tmp_path


def start(folder, *command, code=0):
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=folder,
        env=environ,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
    )
    assert done.returncode == code, done.stdout
    return done.stdout


def test_check_command(folder):
    check = ("-m", "embodied.envs.check")
    text = start(folder, *check, "user_toy:Everything", "--length", "7")
    assert "violations 0" in text
    assert "lengths 7 to 7" in text
    rows = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert "(16, 24, 1)" in rows["wrist"]
    assert "-1 to 1" in rows["depth"]
    assert "0 to 2" in rows["mode"]
    keys = [line.split()[1] for line in text.splitlines() if line.startswith("action ")]
    assert sorted(keys) == ["arm", "gear", "hand_grip", "keys", "lamps", "reset"]
    assert "Unknown option 'lenght'" in start(
        folder, *check, "user_toy:Everything", "--lenght", "7", code=2
    )


@pytest.mark.slow
def test_training_with_cameras_of_several_sizes_and_actions_of_every_kind(folder):
    logdir = folder / "run"
    # One stage of convolutions, as the pictures are small, and as it compiles faster.
    options = "--run.steps 200 --run.train_ratio 32 --run.report_every -1"
    options += " --run.parallel False --jax.debug False"
    options += " --agent.enc.simple.mults 4 --agent.dec.simple.mults 4"
    start(
        folder,
        *(ROOT / "dreamerv3" / "main.py", "--configs", "debug", "--logdir", logdir),
        *("--task", "user_toy:Everything", "--env.custom.length", "7", *options.split()),
    )
    scores = [json.loads(x) for x in (logdir / "scores.jsonl").read_text().splitlines()]
    assert len(scores) >= 12
    lines = [json.loads(x) for x in (logdir / "metrics.jsonl").read_text().splitlines()]
    metrics = {key: value for line in lines for key, value in line.items()}
    assert {x["episode/length"] for x in lines if "episode/length" in x} == {7}
    keys = ("front", "wrist", "depth", "body_joints", "mode", "switches")
    losses = [metrics[f"train/loss/{key}"] for key in (*keys, "policy", "value", "rew")]
    assert np.isfinite(losses).all()
    for key in ("gear", "keys", "lamps", "hand_grip", "arm"):
        assert np.isfinite(metrics[f"train/ent/{key}"])
    pytest.importorskip("av")
    for key in ("front", "wrist", "depth"):
        assert list((logdir / "scope" / f"report-openloop-{key}.mp4").iterdir()), key


@pytest.mark.slow
def test_an_image_that_does_not_fit_is_refused_before_the_first_update(folder):
    logdir = folder / "run"
    text = start(
        folder,
        *(ROOT / "dreamerv3" / "main.py", "--configs", "debug", "--logdir", logdir),
        *("--task", "crafter_reward", "--env.crafter.size", "100", "84"),
        code=2,
    )
    last = text.splitlines()[-1]
    assert "error: Got image 'image' of size 100x84" in last
    assert "the nearest size that works is 96x80" in last
    assert not (logdir / "metrics.jsonl").exists()


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("gymnasium_CartPol-v1", "Did you mean 'CartPole-v1'"),
        ("gymnasium_LunarLander-v2", "'LunarLander-v3'"),
        ("user_toy:Everythin", "Did you mean 'Everything'"),
    ],
)
def test_a_wrong_task_is_refused_before_a_folder_is_made(folder, monkeypatch, capsys, task, words):
    monkeypatch.chdir(folder)
    command = ["--configs", "debug", "--task", task, "--jax.cache", "", "--logdir", "run"]
    with pytest.raises(SystemExit) as error:
        main.train(command)
    assert error.value.code == 2
    assert words in capsys.readouterr().err
    assert not (folder / "run").exists()
