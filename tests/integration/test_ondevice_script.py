"""The script ondevice: its folders, how it stops and continues, and what it refuses."""

import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest

from dreamerv3.main import main
from embodied.core.checkpoint import Checkpoint
from embodied.core.space import Space
from embodied.envs.pure.toy import Grid
from embodied.jax.ondevice import OnDevice

UNIT = str(pathlib.Path(__file__).parents[1] / "unit")
ROOT = pathlib.Path(__file__).parents[2]
OPTIONS = [
    "--script", "ondevice", "--configs", "debug", "--task", "jaxtoy_grid",
    "--run.envs", "3", "--run.steps", "240", "--run.train_ratio", "4", "--replay.size", "200",
    "--batch_size", "4", "--batch_length", "5", "--report_length", "5", "--ondevice.chunk", "16",
    "--run.log_every", "-1", "--run.report_every", "-1", "--run.save_every", "-1",
    "--logger.outputs", "jsonl", "--logger.filter", "none",
]  # fmt: skip


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Options of a model that starts quickly, of which processes know, too."""
    monkeypatch.syspath_prepend(UNIT)
    (tmp_path / "tiny.yaml").write_text("rate: 0.05\nbreaks: 0\n")
    return [
        "--agent_class", "ondevice_model:Tiny", "--agent_config", str(tmp_path / "tiny.yaml"),
    ]  # fmt: skip


def run(folder, *flags, code=0):
    try:
        main([*OPTIONS, "--logdir", str(folder), *flags])
    except SystemExit as error:
        assert error.code == code
    else:
        assert code == 0


def stop_in_chunk(monkeypatch, numbers):
    """Send signals while chunks run, by their number."""
    start, calls = OnDevice.start, []

    def started(program, plan, count):
        calls.append(count)
        if len(calls) in numbers:
            os.kill(os.getpid(), numbers[len(calls)])
        return start(program, plan, count)

    monkeypatch.setattr(OnDevice, "start", started)


def kill_in_loop(folder, flags):
    """Continue in a process of its own and kill it, wherever it is, after two log lines."""
    command = [sys.executable, str(ROOT / "dreamerv3" / "main.py"), *OPTIONS]
    process = subprocess.Popen(
        [*command, "--logdir", str(folder), *flags],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), UNIT])},
        text=True,
        stdout=subprocess.PIPE,
    )
    with process:
        lines = (line for line in process.stdout if line.startswith("Step "))
        assert len(list(itertools.islice(lines, 2))) == 2
        process.kill()


def state(folder):
    return Checkpoint(folder / "ckpt").read(folder)[1]


def scores(folder):
    return [json.loads(line) for line in (folder / "scores.jsonl").read_text().splitlines()]


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for path, value in expected["agent"]["params"].items():
        np.testing.assert_array_equal(found["agent"]["params"][path], value, path)
    for key, rows in expected["ondevice"]["ring"].items():
        np.testing.assert_array_equal(found["ondevice"]["ring"][key], rows, key)
    assert found["ondevice"]["position"] == expected["ondevice"]["position"]
    assert found["learner"] == expected["learner"]
    assert found["step"] == expected["step"]


@pytest.mark.slow
def test_stopping_and_continuing_changes_nothing_and_what_was_learned_can_be_evaluated(
    tmp_path, monkeypatch, capsys, small
):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run(whole, *small)
    output = capsys.readouterr().out
    assert "bytes per step x 3 environments x 73 positions" in output
    assert "Step 240 of 240 (100.0%) | 42 updates" in output
    with monkeypatch.context() as patch:
        stop_in_chunk(patch, {2: signal.SIGINT, 4: signal.SIGTERM})
        run(parts, *small, code=130)
        run(parts, *small, code=143)
        assert 0 < state(parts)["step"] < 240
        # A save that was cut off leaves a folder that nobody takes for a checkpoint.
        (parts / "ckpt" / "tmp-000009-step0000000300").mkdir()
    run(parts, *small, "--run.steps", "120")
    kill_in_loop(parts, small)
    run(parts, *small)
    assert_same(state(parts), state(whole))
    lines = scores(whole)
    assert len(lines) > 2
    # What was logged between the last save and the kill is logged once more.
    again = {tuple(line.items()): line for line in scores(parts)}
    assert list(again.values()) == lines
    logged = [json.loads(line) for line in (whole / "metrics.jsonl").read_text().splitlines()]
    assert {
        "step", "train/loss/reward", "train/seen", "train/ratio", "fps/policy", "fps/train",
        "replay/items", "episode/length", "episode/score_mean", "epstats/log/success/max",
        "report/error", "usage/psutil/proc_ram_gb",
    } <= {key for line in logged for key in line}  # fmt: skip

    evaluation = [
        "--script", "eval_only", "--run.from_checkpoint", str(whole), "--run.eval_eps", "2",
        "--run.eval_envs", "1", "--run.parallel", "False", "--logdir", str(tmp_path / "eval"),
    ]  # fmt: skip
    main([*evaluation, *small])
    summary = json.loads((tmp_path / "eval" / "summary.json").read_text())
    assert summary["episodes"] == 2 and summary["step"] == 240


@pytest.mark.slow
def test_each_of_several_seeds_is_a_run_of_its_own(tmp_path, monkeypatch, capsys, small):
    several, alone = tmp_path / "several", tmp_path / "alone"
    seeds = (*small, "--ondevice.seeds", "2", "--seed", "5")
    with monkeypatch.context() as patch:
        stop_in_chunk(patch, {4: signal.SIGINT})
        run(several, *seeds, code=130)
    # One of the seeds was saved once more before the process was killed.
    newest = sorted((several / "seed1" / "ckpt").glob("0*"))[-1]
    (newest / "manifest.json").unlink()
    capsys.readouterr()
    run(several, *seeds)
    assert "each of 2 seeds" in capsys.readouterr().out
    for index, seed in enumerate((5, 6)):
        folder = several / f"seed{index}"
        assert f"seed: {seed}" in (folder / "config.yaml").read_text()
        assert state(folder)["step"] == 240
        assert scores(folder)
    run(alone, *small, "--seed", "6")
    found, expected = state(several / "seed1"), state(alone)
    for path, value in expected["agent"]["params"].items():
        np.testing.assert_allclose(found["agent"]["params"][path], value, rtol=1e-3, atol=1e-5)
    # Another number of seeds does not fit the folder, and the other way around.
    run(several, *small, "--ondevice.seeds", "3", code=2)
    assert "holds a run of 2 seeds; take the same number" in capsys.readouterr().err
    run(alone, *small, "--ondevice.seeds", "2", code=2)
    assert "holds a run of 1 seed; take the same number" in capsys.readouterr().err
    run(alone, *small, "--seed", "6", "--script", "train", code=2)
    assert "script" in capsys.readouterr().err


class Impure(Grid):
    """Looks at the value of an array, which is not known when the program is compiled."""

    def step(self, state, action, key):
        if action["action"] > 1:
            return self.reset(key)
        return super().step(state, action, key)


class Wide(Grid):
    """Declares 64 bits."""

    @property
    def obs_space(self):
        return {**super().obs_space, "position": Space(np.float64, 2)}


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--task", f"{__name__}:Impure"), "Impure cannot be compiled, tracing: reset and step"),
        (("--task", f"{__name__}:Wide"), "position type: declared as float64, expected at most 32"),
        (("--task", "toy_cue"), "expected an environment in JAX"),
        (("--task", "jaxtoy_grdi"), "jaxtoy_grid"),
        (("--ondevice.chunk", "-1"), "Option 'ondevice.chunk' has to be at least 1, got -1"),
        (("--ondevice.seeds", "0"), "Option 'ondevice.seeds' has to be at least 1"),
        (("--script", "train", "--ondevice.seeds", "2"), "the script train trains one seed"),
        (("--ondevice.seeds", "3", "--jax.train_devices", "0", "1"), "cannot share evenly"),
        (("--replay.fracs.uniform", "0.5", "--replay.fracs.recency", "0.5"), "can only do 1.0"),
        (("--consec_train", "2"), "Option 'consec_train' is 2, but the script ondevice"),
        pytest.param(
            ("--replay.size", "1e15", "--run.steps", "1e15"),
            "bytes per step",
            marks=pytest.mark.slow,  # The agent is traced first.
        ),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(flags, text, tmp_path, capsys):
    run(tmp_path / "run", *flags, code=2)
    assert text in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
