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
# For networks this small, two threads are no faster and leave nothing to other tests.
ON_ONE_CORE = f"""
import os, runpy, sys
sys.argv[0] = {str(MAIN)!r}
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})
runpy.run_path(sys.argv[0], run_name="__main__")
"""
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


@pytest.mark.slow
def test_learns_to_remember_a_cue(tmp_path):
    command = [sys.executable, "-c", ON_ONE_CORE, "--logdir", tmp_path, *OPTIONS.split()]
    # Unlike other tests, this one runs longer than it compiles.
    env = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    subprocess.run(command, env=env, check=True)
    lines = (tmp_path / "scores.jsonl").read_text().splitlines()
    scores = [json.loads(line)["episode/score"] for line in lines]
    assert np.mean(scores[-len(scores) // 5 :]) >= 0.9 * Toy("memory").optimum
