"""The scripts of the folder examples, at toy size."""

import importlib
import pathlib

import numpy as np
import pytest

from embodied.core.checkpoint import Checkpoint

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
SHORT = {"run.train_ratio": 8, "run.log_every": -1, "jax.platform": "cpu"}
#: Acts at random, so that nothing is compiled.
RANDOM = {**SHORT, "random_agent": True, "run.envs": 1, "run.eval_envs": 1}


@pytest.fixture
def example(monkeypatch):
    """Imports a script by its name."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module


def test_scripts_are_short():
    scripts = {path: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}
    assert len(scripts) == 6
    assert max(scripts.values()) <= 70
    assert sorted(scripts.values())[-2] <= 60


def test_own_environment(example, tmp_path):
    pytest.importorskip("gymnasium")
    scores = example("own_environment").main(tmp_path, steps=110, options=RANDOM)
    assert len(scores) == 5
    assert ((scores > 0) & (scores < 50)).all()


def test_several_seeds_in_one_figure(example, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    figure = example("several_seeds").main(tmp_path, seeds=2, steps=130, options=RANDOM)
    assert figure.stat().st_size > 10_000
    assert "Catch" in capsys.readouterr().out


@pytest.mark.slow
def test_own_agent(example, tmp_path):
    run = example("own_agent").main(tmp_path, steps=600)
    assert run.metrics["train/opt/updates"].value[-1] > 20


@pytest.mark.slow
def test_own_loss(example, tmp_path):
    run = example("own_loss").main(tmp_path, steps=300, options=SHORT)
    assert (run.metrics["train/loss/calm"].value[-3:] > 0).all()


@pytest.mark.slow
def test_the_demo_and_its_pictures(example, tmp_path):
    pytest.importorskip("matplotlib")
    first, last = example("demo").main(tmp_path / "demo", steps=300, options=SHORT)
    assert np.isfinite([first, last]).all()
    assert Checkpoint(tmp_path / "demo" / "ckpt").peek().step == 300
    assert (tmp_path / "demo" / "demo.png").stat().st_size > 10_000
    videos = [path for path in (tmp_path / "demo").iterdir() if path.suffix in (".mp4", ".gif")]
    assert sorted(path.stem for path in videos) == ["agent", "imagination"]
    assert all(path.stat().st_size > 500 for path in videos)
