"""What is printed at the end of a run."""

import json
import sys

import pytest

from dreamerv3.cli.next_steps import next_steps
from dreamerv3.cli.presets import Presets


@pytest.fixture
def config(tmp_path):
    outputs = ["jsonl", "scope", "tensorboard", "wandb", "mlflow"]
    folder = tmp_path / "my runs" / "one"
    folder.mkdir(parents=True)
    options = {"logger.outputs": outputs, "logdir": str(folder)}
    return Presets.load().defaults.update(options)


def test_an_empty_folder_has_nothing_to_show(config):
    assert next_steps(config) == ""


def test_a_run_without_finished_episodes_says_so(config, tmp_path):
    (tmp_path / "my runs" / "one" / "ckpt").mkdir()
    assert next_steps(config) == "Scores:   none yet, since no episode has ended"


def test_what_is_there_is_listed_with_commands(config, tmp_path, monkeypatch):
    folder = tmp_path / "my runs" / "one"
    scores = [json.dumps({"step": i, "episode/score": float(i)}) for i in range(12)]
    (folder / "scores.jsonl").write_text("\n".join([*scores, '{"step": 12, "epis']))
    (folder / "metrics.jsonl").write_text("")
    (folder / "ckpt").mkdir()
    (folder / "ckpt" / "latest").write_text("000010\n")
    (folder / "scope").mkdir()
    (folder / "events.out.tfevents.1.host").write_text("")
    monkeypatch.setattr(sys, "argv", ["/usr/bin/dreamerv3"])
    text = next_steps(config)
    quoted = f"'{folder}'"
    assert text.splitlines() == [
        f"Scores:   {folder}/scores.jsonl (12 episodes, mean 6.5 over the last 10)",
        f"Metrics:  {folder}/metrics.jsonl",
        f"Snapshot: {folder}/ckpt/000010",
        f"Plot:     dreamerv3 plot {quoted} --out {quoted}/curves.png",
        f"Table:    dreamerv3 table {quoted}",
        f"View:     scope --basedir '{folder.parent}'",
        f"View:     tensorboard --logdir {quoted}",
        f"Evaluate: dreamerv3 --script eval_only --run.from_checkpoint {quoted}",
    ]
    assert "Evaluate" not in next_steps(config.update(random_agent=True))
