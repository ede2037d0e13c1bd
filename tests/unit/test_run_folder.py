"""The folder of a run that is refused after it was taken."""

import pytest

from dreamerv3.cli import command_line
from dreamerv3.cli.run_folder import claimed
from embodied.core.checkpoint import Checkpoint
from embodied.core.config import ConfigError
from embodied.core.schedule import Counter


def options(folder, *flags):
    return command_line.parse([f"--logdir={folder}", *flags]).config


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_new_folder_is_gone(tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(ConfigError), claimed(options(folder)):
        assert {"config.yaml", "starts.jsonl"} <= content(folder).keys()
        raise ConfigError("too large")
    assert not folder.exists()


def test_an_earlier_start_is_as_it_was(tmp_path):
    with claimed(options(tmp_path)):
        pass
    (tmp_path / "mine.txt").write_text("mine")
    before = content(tmp_path)
    with pytest.raises(ConfigError), claimed(options(tmp_path, "--run.steps=5")):
        assert "config-1.yaml" in content(tmp_path)
        raise ConfigError("too large")
    assert content(tmp_path) == before


def test_a_run_that_has_saved_keeps_its_options(tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(ConfigError), claimed(options(folder)):
        checkpoint = Checkpoint(folder / "ckpt")
        checkpoint.register("step", Counter())
        checkpoint.save(0)
        checkpoint.wait()
        raise ConfigError("an environment cannot be made")
    assert {"ckpt", "config.yaml", "starts.jsonl"} <= {path.name for path in folder.iterdir()}


def test_failures_keep_what_led_to_them(tmp_path):
    with pytest.raises(ZeroDivisionError), claimed(options(tmp_path / "run")):
        raise ZeroDivisionError
    assert content(tmp_path / "run").keys() == {"config.yaml", "starts.jsonl"}
