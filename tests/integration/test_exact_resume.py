"""Stopping anywhere and continuing gives the losses of a run that was not stopped, bit for bit."""

import json
import os
import signal

import pytest

from dreamerv3.main import main
from embodied.jax.jax_agent import JaxAgent

OPTIONS = [
    "--configs", "debug", "--run.envs", "3", "--run.parallel", "false", "--run.steps", "200",
    "--run.train_ratio", "96", "--task", "toy_memory",
    "--run.log_every", "-1", "--run.report_every", "1", "--run.save_every", "1",
    "--batch_length", "8", "--consec_train", "2", "--report_length", "8", "--consec_report", "2",
    "--logger.outputs", "jsonl", "--logger.filter", "none",
]  # fmt: skip


class Recorder:
    """Notes the loss that every call to `train` returns; sends signals at some calls."""

    def __init__(self, signals):
        self.losses, self._signals = [], signals

    def install(self, monkeypatch):
        train = JaxAgent.train

        def recorded(agent, carry, data):
            result = train(agent, carry, data)
            self.losses.append(result[2].get("opt/loss"))
            if len(self.losses) in self._signals:
                os.kill(os.getpid(), self._signals[len(self.losses)])
            return result

        monkeypatch.setattr(JaxAgent, "train", recorded)


def run(folder, *flags, code=0):
    try:
        main([*OPTIONS, "--logdir", str(folder), *flags])
    except SystemExit as error:
        assert error.code == code
    else:
        assert code == 0


def scores(folder):
    return [json.loads(line) for line in (folder / "scores.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_stopping_anywhere_and_continuing_changes_nothing(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        whole = Recorder({})
        whole.install(patch)
        run(tmp_path / "whole")
    # Once between two updates of a step, once between two steps, and once by the budget.
    parts = Recorder({38: signal.SIGINT, 101: signal.SIGTERM})
    parts.install(monkeypatch)
    run(tmp_path / "parts", code=130)
    run(tmp_path / "parts", code=143)
    run(tmp_path / "parts", "--run.steps", "190")
    run(tmp_path / "parts")
    assert len(parts.losses) > 110
    assert parts.losses == whole.losses
    assert scores(tmp_path / "parts") == scores(tmp_path / "whole")
