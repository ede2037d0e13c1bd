"""A small agent has to learn a tiny task whose optimum is known: to act on a cue of the past."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from embodied.envs.toy import Toy

MAIN = pathlib.Path(__file__).parents[2] / "dreamerv3" / "main.py"
OPTIONS = """
    --task toy_memory --seed 0 --run.steps 1800 --run.train_ratio 512 --agent.opt.lr 5e-4
    --replay.size 1e5 --run.envs 4 --run.parallel false --batch_size 16 --batch_length 16
    --run.log_every 60 --run.report_every 0 --run.save_every 0
    --logger.outputs jsonl --logger.filter none --agent.report False --jax.platform cpu
    --agent..*rssm.deter 64 --agent..*rssm.hidden 32 --agent..*rssm.stoch 8
    --agent..*rssm.classes 8 --agent..*rssm.blocks 4 --agent..*.units 64 --agent..*.layers 1
    --agent.loss_scales.rew 10 --agent.horizon 20 --agent.opt.warmup 50 --report_length 8
    --agent.imag_length 6
"""


def use_one_core():
    """Leave the other cores to other tests; for networks this small, two are no faster."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


@pytest.mark.slow
def test_learns_to_remember_a_cue(tmp_path):
    command = [sys.executable, MAIN, "--logdir", tmp_path, *OPTIONS.split()]
    # Unlike other tests, this one runs longer than it compiles.
    env = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    subprocess.run(command, env=env, check=True, preexec_fn=use_one_core)
    lines = (tmp_path / "scores.jsonl").read_text().splitlines()
    scores = [json.loads(line)["episode/score"] for line in lines]
    assert np.mean(scores[-len(scores) // 5 :]) >= 0.9 * Toy("memory").optimum
