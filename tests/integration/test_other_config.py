"""Starting again in the folder of a run with other options."""

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

from dreamerv3.agent import Dreamer
from dreamerv3.cli import command_line, factories, run_folder
from dreamerv3.main import main
from embodied.core.checkpoint import Checkpoint
from embodied.core.config import Config
from embodied.jax.jax_agent import JaxAgent
from embodied.jax.params import param_shapes
from embodied.run.folder_lock import FolderLock

SMALL = ["--configs", "debug", "--task", "toy_cue", "--logger.filter", "none"]
LARGER = [*SMALL, r"--.*\.rssm.deter", "16", "--agent.opt.lr", "1e-3"]


class Saved:
    def __init__(self, state):
        self._state = state

    def save(self):
        return self._state


@pytest.fixture(scope="module")
def shapes():
    config = command_line.resolve(SMALL)
    return param_shapes(Dreamer, *factories.make_spaces(config), factories.agent_config(config))


@pytest.fixture
def folder(tmp_path, shapes):
    """What a run leaves, as far as the next start looks at it before it builds an agent."""
    config = command_line.resolve([*SMALL, "--logdir", str(tmp_path)])
    config.save(tmp_path / "config.yaml")
    checkpoint = Checkpoint(tmp_path / "ckpt")
    params = {path: np.zeros(shape, np.float32) for path, shape in shapes.items()}
    checkpoint.register("agent", Saved({"params": params}))
    checkpoint.save(200)
    assert checkpoint.wait()
    return tmp_path


def contents(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def refuse_to_build(*args):
    raise AssertionError("nothing is compiled")


def test_shapes_are_those_of_the_agent(shapes):
    assert shapes["dyn/dynhid0/kernel"] == (4, 2 + 3 * 3, 2)
    assert "opt/step/value" in shapes
    assert "retnorm/lo/value" in shapes


def test_another_size_is_refused_and_nothing_is_touched(folder, monkeypatch, capsys):
    monkeypatch.setattr(JaxAgent, "__init__", refuse_to_build)
    before = contents(folder)
    with pytest.raises(SystemExit) as error:
        main([*LARGER, "--run.log_every", "7", "--logdir", str(folder)])
    assert error.value.code == 2
    assert contents(folder) == before
    message = capsys.readouterr().err
    assert re.search(r"agent\.dyn\.rssm\.deter +8 -> 16", message)
    assert re.search(r"agent\.opt\.lr +4e-0?5 -> 0.001", message)
    assert "log_every" not in message
    assert len(re.findall(r"^  \w+/\S+  \[[\d, ]*\] -> \[[\d, ]*\]$", message, re.M)) == 5
    assert re.search(r"^  and \d+ more$", message, re.M)
    assert "--logdir NEW --run.from_checkpoint" in message
    pattern = re.search(r"--run.from_checkpoint_regex '(.*)'", message)[1]
    assert re.search(pattern, "enc/mlp0/kernel")
    assert not re.search(pattern, "dyn/dynhid0/kernel")


@pytest.mark.slow
def test_same_shapes_but_another_task_setting(folder, capsys):
    with pytest.raises(SystemExit):
        main([*SMALL, "--run.train_ratio", "99", "--logdir", str(folder)])
    message = capsys.readouterr().err
    assert "Parameters" not in message
    assert re.search(r"run\.train_ratio +8.0 -> 99.0", message)
    assert f"--run.from_checkpoint {folder}\n" in message


def test_harmless_changes_are_printed_and_earlier_options_kept(folder, monkeypatch, capsys):
    # Stops where the agent would be built.
    monkeypatch.setattr(JaxAgent, "__init__", refuse_to_build)
    for steps in ("2000", "3000", "3000"):
        with pytest.raises(AssertionError):
            main([*SMALL, "--run.steps", steps, "--env.dummy.length", "5", "--logdir", str(folder)])
    output = capsys.readouterr().out
    assert re.search(r"run\.steps +1000.0 -> 2000.0", output)
    assert re.search(r"run\.steps +2000.0 -> 3000.0", output)
    saved = [Config.load(folder / name).run.steps for name in ("config-1.yaml", "config-2.yaml")]
    assert saved == [1000, 2000]
    assert Config.load(folder / "config.yaml").run.steps == 3000
    assert not (folder / "config-3.yaml").exists()


def test_folder_in_use_is_refused(folder, capsys):
    before = contents(folder)
    with FolderLock(folder):
        locked = contents(folder)
        with pytest.raises(SystemExit) as error:
            main([*SMALL, "--run.steps", "2000", "--logdir", str(folder)])
        assert contents(folder) == locked
    assert error.value.code == 2
    assert "is at work in" in capsys.readouterr().err
    assert contents(folder) == before


def test_folder_that_cannot_be_written(tmp_path, capsys):
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as error:
        main([*SMALL, "--logdir", str(tmp_path / "file" / "run")])
    assert error.value.code == 2
    assert "choose another folder with --logdir" in capsys.readouterr().err


def test_every_start_is_noted(folder, monkeypatch):
    monkeypatch.setattr(JaxAgent, "__init__", refuse_to_build)
    for _ in range(2):
        with pytest.raises(AssertionError):
            main([*SMALL, "--logdir", str(folder)])
    lines = [json.loads(line) for line in (folder / "starts.jsonl").read_text().splitlines()]
    assert len(lines) == 2
    assert lines[0]["seed"] == 0
    assert {"python", "jax", "numpy"} <= lines[0]["versions"].keys()
    assert re.fullmatch(r"([0-9a-f]{40}\+?)?", lines[0]["revision"])


@pytest.mark.slow
def test_start_from_a_checkpoint_that_does_not_fit(folder, tmp_path_factory, monkeypatch, capsys):
    monkeypatch.setattr(JaxAgent, "__init__", refuse_to_build)
    flags = ["--logdir", str(tmp_path_factory.mktemp("new") / "run"), "--run.from_checkpoint"]
    for more, expected in (
        ([str(folder / "nothing")], "expected a folder with a complete checkpoint"),
        ([str(folder)], r"(?s)same shapes.*  dyn/\S+  \[.*and \d+ more"),
        ([str(folder), "--run.from_checkpoint_regex", "^abc/"], "nothing that matches"),
    ):
        with pytest.raises(SystemExit) as error:
            main([*LARGER, *flags, *more])
        assert error.value.code == 2
        assert re.search(expected, capsys.readouterr().err)
    # What fits goes on to build the agent.
    with pytest.raises(AssertionError):
        main([*LARGER, *flags, str(folder), "--run.from_checkpoint_regex", "^enc/"])


@pytest.mark.parametrize(
    ("fitting", "words"),
    [("enc/mlp0/kernel", "--run.from_checkpoint_regex '^(enc)/'"), ("retnorm/low", "")],
)
def test_a_pattern_is_suggested_only_where_a_network_fits(fitting, words):
    there, here = {fitting: (3,), "dyn/h/kernel": (3,)}, {fitting: (3,), "dyn/h/kernel": (4,)}
    text = run_folder.refusal(Path("run"), {"agent.units": (3, 4)}, there, here)
    assert "--logdir NEW" in text
    assert ("regex" in text) == bool(words)
    assert words in text
