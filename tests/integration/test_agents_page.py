"""The agents of docs/agents.md, taken from that page, in the program as a user starts it."""

import json
import pathlib
import re
import statistics
import subprocess
import sys

import numpy as np
import pytest

import dreamerv3
from dreamerv3.cli import command_line, doctor

ROOT = pathlib.Path(__file__).parents[2]
MAIN = ROOT / "dreamerv3" / "main.py"
PAGE = (ROOT / "docs" / "agents.md").read_text()
OPTIMUM, RANDOM = 10.0, 2.5
SMALL = (
    "--task", "toy_cue", "--batch_length", "16", "--run.envs", "4", "--run.eval_envs", "2",
    "--run.train_ratio", "64", "--jax.platform", "cpu", "--logger.outputs", "jsonl",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files of the page."""
    folder = tmp_path_factory.mktemp("agents")
    blocks = re.findall(r"A? ?file `(\w+\.\w+)`.*?```\w+\n(.*?)```", PAGE, re.DOTALL)
    assert [name for name, _ in blocks] == ["my_agent.py", "my_agent.yaml", "random_agent.py"]
    for name, text in blocks:
        (folder / name).write_text(text)
    return folder


def run(folder, *args):
    command = [sys.executable, str(MAIN), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def scores(path):
    return [json.loads(line)["episode/score"] for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def trained(folder):
    own = ["--agent_class", "my_agent:QAgent", "--agent_config", "my_agent.yaml"]
    run(folder, *SMALL, *own, "--agent.lr", "2e-3", "--run.steps", "2000", "--logdir", "q")
    return folder / "q"


def test_examples_are_short(folder):
    lengths = {
        name: sum(1 for line in (folder / name).read_text().splitlines() if line.strip())
        for name in ("my_agent.py", "random_agent.py")
    }
    assert lengths["my_agent.py"] <= 60
    assert lengths["random_agent.py"] <= 15


@pytest.mark.slow
def test_the_model_learns(trained):
    values = scores(trained / "scores.jsonl")
    assert statistics.fmean(values[:10]) < 2 * RANDOM
    assert statistics.fmean(values[-20:]) > 0.95 * OPTIMUM


@pytest.mark.slow
def test_the_model_is_resumed_and_evaluated_elsewhere(folder, trained, monkeypatch):
    own = ["--agent_class", "my_agent:QAgent", "--agent_config", folder / "my_agent.yaml"]
    more = ["--agent.lr", "2e-3", "--run.steps", "2100", "--logdir", trained]
    assert "Continuing at step 2,000" in run(folder, *SMALL, *own, *more)
    result = run(folder, "--script", "eval_only", "--run.from_checkpoint", trained)
    assert re.search(r'"score_mean": 10\.0', result)
    printed = run(folder, "--print_config", *SMALL, *own, "--agent.lr", "1")
    assert re.search(rf"agent\.units +64 +\({folder}/my_agent\.yaml\)", printed)
    assert re.search(r"agent\.lr +1\.0 +\(flag\)", printed)
    monkeypatch.syspath_prepend(folder)
    config = command_line.resolve([*map(str, [*SMALL, *own, "--logdir", trained])])
    needs = [finding.text for finding in doctor.resources(config)]
    assert any(re.fullmatch(r"parameters and optimizer take [1-9].* KB.*", text) for text in needs)
    policy = dreamerv3.load_policy(trained, mode="deterministic")
    cues = np.arange(4, dtype=np.int32)
    _, action = policy(policy.initial(4), {"cue": cues, "is_first": np.ones(4, bool)})
    assert (action["action"] == cues).all()
    with pytest.raises(NotImplementedError, match="no world model"):
        policy.imagine(None, {})


@pytest.mark.slow
def test_the_agent_that_does_everything_itself(folder):
    flags = ["--agent_class", "random_agent:RandomAgent", "--run.steps", "500", "--logdir", "r"]
    run(folder, *SMALL, *flags)
    assert statistics.fmean(scores(folder / "r" / "scores.jsonl")) == pytest.approx(RANDOM, abs=1.2)


@pytest.mark.slow
def test_another_class_does_not_continue_a_run(folder, trained):
    flags = ["--agent_class", "random_agent:RandomAgent", "--logdir", str(trained)]
    command = [sys.executable, str(MAIN), *SMALL, *flags]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300)
    assert done.returncode == 2
    assert re.search(r"agent_class +my_agent:QAgent -> random_agent:RandomAgent", done.stderr)
