"""Training with a mixture of all ways to draw from the replay."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from embodied.core.checkpoint import Checkpoint

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.slow
def test_a_run_trains(tmp_path):
    fracs = {"uniform": 0.4, "priority": 0.3, "recency": 0.3}
    command = [sys.executable, "dreamerv3/main.py", "--configs", "debug", "--task", "toy_memory"]
    command += ["--logdir", str(tmp_path), "--run.steps", "200", "--run.log_every", "1"]
    command += ["--agent.report", "False", "--replay.prio.initial", "77"]
    for name, value in fracs.items():
        command += [f"--replay.fracs.{name}", str(value)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=580, check=False
    )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    logged = {key for line in lines for key in json.loads(line)}
    assert {"train/loss/rew", "replay/items", "replay/replay_ratio"} <= logged
    _, states = Checkpoint(tmp_path / "ckpt").read(keys=["replay"])
    # Neither as at first nor as after a draw, but what the agent wrote.
    values = np.concatenate(list(states["replay"]["priorities"].values()))
    assert ((values > 0) & (values != 77)).any()
