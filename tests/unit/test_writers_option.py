"""The option `logger.outputs` and what it makes."""

import numpy as np
import pytest

from dreamerv3.cli import agents, checks, writers
from dreamerv3.cli.presets import Presets
from embodied.core.config import ConfigError
from embodied.core.logger import Logger
from embodied.core.schedule import Counter
from embodied.core.writers import services
from embodied.core.writers.writer import Record


@pytest.fixture
def config(tmp_path):
    names = list(writers.MAKERS)
    return Presets.load().defaults.update(logdir=str(tmp_path), **{"logger.outputs": names})


def test_every_output_is_made_and_nothing_happens_before_the_first_write(config, tmp_path):
    outputs = writers.make_outputs(config)
    assert [output.name for output in outputs] == [
        "TerminalWriter",
        *["JSONLWriter"] * 3,
        "ScopeWriter",
        "TensorBoardWriter",
        "WandbWriter",
        "MLflowWriter",
    ]
    Logger(Counter(), outputs).close()
    assert not list(tmp_path.iterdir())


def test_metrics_of_another_agent_are_shown_on_the_terminal(config, capsys):
    records = [Record(1, "train/td_error", np.asarray(2.0)), Record(1, "x", np.asarray(1.0))]
    for name, expected in {agents.DEFAULT: "", "my:Agent": "step 1 | train/td_error 2\n"}.items():
        writers.make_outputs(config.update(agent_class=name))[0](records)
        assert capsys.readouterr().out == expected


def test_output_whose_package_is_missing_is_a_mistake_on_the_command_line(config, monkeypatch):
    monkeypatch.setattr(services.importlib.util, "find_spec", lambda name: name != "wandb")
    with pytest.raises(ConfigError, match="'wandb' needs the package 'wandb'"):
        checks.check(config)
    checks.check(config.update(**{"logger.outputs": ["jsonl", "tensorboard", "mlflow"]}))


def test_videos_of_an_evaluation_need_a_package_before_it_begins(config, monkeypatch):
    config = config.update(**{"script": "eval_only", "logger.outputs": ["jsonl"]})
    monkeypatch.setattr(services.importlib.util, "find_spec", lambda name: None)
    checks.check(config)
    with pytest.raises(ConfigError, match=r"'eval.video' is True. Videos need .* '.\[video\]'"):
        checks.check(config.update(**{"eval.video": True}))
