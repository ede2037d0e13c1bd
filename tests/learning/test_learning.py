"""A small agent has to learn tiny environments whose optimum is known."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from embodied.envs.toy import Toy

pytestmark = pytest.mark.slow

MAIN = pathlib.Path(__file__).parents[2] / "dreamerv3" / "main.py"
OPTIONS = """
    --replay.size 1e5 --run.envs 4 --run.parallel false --run.train_ratio 256
    --run.log_every 60 --run.report_every 0 --run.save_every 0
    --logger.outputs jsonl --logger.filter none --agent.report False --jax.platform cpu
    --agent..*rssm.deter 64 --agent..*rssm.hidden 32 --agent..*rssm.stoch 8
    --agent..*rssm.classes 8 --agent..*rssm.blocks 4 --agent..*.units 64 --agent..*.layers 1
    --agent.loss_scales.rew 10 --agent.horizon 20 --agent.opt.warmup 50 --report_length 8
"""
SHORT = "--batch_size 16 --batch_length 10 --agent.imag_length 6 --agent.opt.lr 1e-3"
LONG = """
    --batch_size 16 --batch_length 16 --agent.imag_length 6 --agent.opt.lr 5e-4
    --run.train_ratio 512
"""


def final_return(task, seed, steps, folder, options=SHORT):
    """Train on a toy task; return the mean return of the last fifth of the episodes."""
    budget = ["--task", f"toy_{task}", "--seed", str(seed), "--run.steps", str(steps)]
    command = [
        sys.executable,
        MAIN,
        *budget,
        "--logdir",
        folder,
        *OPTIONS.split(),
        *options.split(),
    ]
    # Unlike the other tests, these run longer than they compile.
    env = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    subprocess.run(command, env=env, check=True)
    lines = (folder / "scores.jsonl").read_text().splitlines()
    scores = [json.loads(line)["episode/score"] for line in lines]
    return np.mean(scores[-len(scores) // 5 :])


def test_learns_to_do_what_the_observation_says(tmp_path):
    assert final_return("cue", 0, 1200, tmp_path) >= 0.9 * Toy("cue").optimum


def test_learns_to_remember_a_cue(tmp_path):
    assert final_return("memory", 0, 1800, tmp_path, LONG) >= 0.9 * Toy("memory").optimum


def test_learns_nothing_from_shuffled_rewards(tmp_path):
    toy = Toy("cue_shuffled")
    mean = final_return("cue_shuffled", 0, 900, tmp_path)
    # A fifth of the episodes are about sixteen returns with a standard deviation of 1.4 each.
    assert abs(mean - toy.random_return) < 1.3
