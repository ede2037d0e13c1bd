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
    "260",
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
def test_the_seed_decides_the_run(tmp_path):
    first = losses_and_scores(tmp_path / "first", 0, "false")
    assert first[0][-1]["train/opt/updates"] > 100
    assert first == losses_and_scores(tmp_path / "in_processes", 0, "true")
    assert first[0] != losses_and_scores(tmp_path / "other", 1, "false")[0]
