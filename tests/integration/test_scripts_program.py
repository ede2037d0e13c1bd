"""The scripts with the real agent, as the command line runs them."""

import json
import re

import pytest

from dreamerv3.main import main

OPTIONS = ["--configs", "debug", "--task", "toy_memory", "--run.envs", "2"]
OPTIONS += ["--logger.outputs", "jsonl", "--logger.filter", "none", "--run.parallel", "false"]


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def launch(logdir, script, steps, *flags):
    main([*OPTIONS, "--script", script, "--logdir", str(logdir), "--run.steps", str(steps), *flags])
    return lines(logdir / "metrics.jsonl")


@pytest.mark.slow
def test_collect_offline_and_train_eval(tmp_path, capsys):
    launch(tmp_path / "data", "collect", 200, "--random_agent", "True")
    source = ("--run.from_replay", str(tmp_path / "data"))
    launch(tmp_path / "learned", "offline", 60, *source)
    assert f"Ended at step 60 (60 frames) with {60 * 8 // 80} updates" in capsys.readouterr().out
    launch(tmp_path / "more", "train_eval", 100, "--run.eval_eps", "3")
    assert len(lines(tmp_path / "more" / "eval_scores.jsonl")) >= 1
    assert "episode/score" in lines(tmp_path / "more" / "scores.jsonl")[0]
    # What an agent has learned collects more.
    agent = ("--run.from_checkpoint", str(tmp_path / "learned"))
    metrics = launch(tmp_path / "again", "collect", 100, *agent)
    assert not any("train/opt/loss" in line for line in metrics)


def ended(output):
    """Step and number of updates that a run has ended with."""
    found = re.search(r"Ended at step ([\d,]+) .* with ([\d,]+) updates", output)
    return (int(number.replace(",", "")) for number in found.groups())


def last(metrics, key):
    """The last value of a metric; lines that only tell of an episode have none of learning."""
    return [line[key] for line in metrics if key in line][-1]


@pytest.mark.slow
def test_parallel(tmp_path, capfd):
    per_step = 8 / 40
    metrics = launch(tmp_path, "parallel", 600, "--batch_size", "4")
    step, updates = ended(capfd.readouterr().out)
    # Learning begins when there is a batch of items, 40, each 11 steps long, of 2 environments.
    assert abs(updates / ((step - 60) * per_step) - 1) < 0.05
    assert 0 < last(metrics, "train/opt/updates") <= updates  # The mean since the line before.
    metrics = launch(tmp_path, "parallel", 900, "--batch_size", "4")
    later, more = ended(capfd.readouterr().out)
    assert abs((more - updates) / ((later - step) * per_step) - 1) < 0.05
    assert updates < last(metrics, "train/opt/updates") <= more
