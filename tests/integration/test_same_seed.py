"""The same seed gives the same run."""

import json

import pytest

from dreamerv3.main import main

OPTIONS = [
    "--configs",
    "debug",
    "--task",
    "toy_memory",
    "--run.steps",
    "420",
    "--run.train_ratio",
    "64",
    "--run.envs",
    "4",
    "--run.log_every",
    "-1",
    "--run.report_every",
    "1",
    "--run.save_every",
    "1",
    "--logger.outputs",
    "jsonl",
    "--logger.filter",
    "none",
]


def losses_and_scores(folder, seed, parallel):
    """Run; return the training metrics of every log line, and the scores."""
    flags = ["--seed", str(seed), "--run.parallel", parallel, "--logdir", str(folder)]
    main([*OPTIONS, *flags])
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    trained = [
        {k: v for k, v in line.items() if k.startswith("train/") or k == "step"} for line in lines
    ]
    return [line for line in trained if "train/opt/loss" in line], [
        json.loads(line) for line in (folder / "scores.jsonl").read_text().splitlines()
    ]


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["false", "true"])
def test_same_seed_same_losses_and_scores(parallel, tmp_path):
    first = losses_and_scores(tmp_path / "first", 0, "false")
    second = losses_and_scores(tmp_path / "second", 0, parallel)
    assert first[0][-1]["train/opt/updates"] > 200
    assert first == second


@pytest.mark.slow
def test_another_seed_gives_another_run(tmp_path):
    first = losses_and_scores(tmp_path / "first", 0, "false")
    second = losses_and_scores(tmp_path / "second", 1, "false")
    assert first[0] != second[0]
