"""Evaluating a saved agent by command and by library call."""

import json
import shutil

import numpy as np
import pytest

import dreamerv3
from dreamerv3.main import main

TRAIN = ["--configs", "debug", "--task", "toy_memory", "--run.steps", "150", "--run.envs", "2"]
TRAIN += ["--run.parallel", "false", "--logger.outputs", "jsonl", "--logger.filter", "none"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    main([*TRAIN, "--logdir", str(folder)])
    shutil.rmtree(folder / "replay")
    return folder


def evaluate(source, logdir, *flags):
    """Evaluate; return the episodes and the summary."""
    options = ["--run.eval_envs", "3", "--run.eval_eps", "7", "--logdir", str(logdir)]
    main(["--script", "eval_only", "--run.from_checkpoint", str(source), *options, *flags])
    lines = (logdir / "episodes.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines], json.loads((logdir / "summary.json").read_text())


@pytest.mark.slow
def test_evaluation(run, tmp_path):
    before = sorted(run.rglob("*"))
    episodes, summary = evaluate(run, tmp_path / "first")
    assert [episode["episode"] for episode in episodes] == list(range(7))
    counts = np.bincount([episode["env"] for episode in episodes])
    assert counts.tolist() == [3, 2, 2]  # Spread evenly.
    scores = [episode["score"] for episode in episodes]
    assert summary["episodes"] == 7
    assert np.isclose(summary["score_mean"], np.mean(scores))
    assert np.isclose(summary["score_std"], np.std(scores))
    assert summary["step"] == 150
    # The same seed gives the same episodes, wherever the checkpoint is named.
    latest = run / "ckpt" / (run / "ckpt" / "latest").read_text()
    assert evaluate(latest, tmp_path / "second") == (episodes, summary)
    assert sorted(run.rglob("*")) == before

    # A limit, videos, and the modes of latents and actions.
    flags = ["--eval.mode", "deterministic", "--eval.video", "True", "--eval.max_length", "3"]
    episodes, summary = evaluate(run / "ckpt", tmp_path / "third", *flags)
    assert summary["mode"] == "deterministic"
    assert max(episode["length"] for episode in episodes) <= 3


@pytest.mark.slow
def test_results_go_below_the_run_by_default(run):
    main(["--script", "eval_only", "--logdir", str(run), "--run.eval_envs", "1"])
    (folder,) = (run / "eval").iterdir()
    assert json.loads((folder / "summary.json").read_text())["episodes"] == 1


def test_mistakes(tmp_path, capsys):
    for flags, message in {
        (): "needs an agent",
        ("--run.from_checkpoint", str(tmp_path)): "has no checkpoint",
    }.items():
        with pytest.raises(SystemExit) as caught:
            main(["--script", "eval_only", *flags])
        assert caught.value.code == 2
        assert message in capsys.readouterr().err


@pytest.mark.slow
def test_library_call(run):
    policy = dreamerv3.load_policy(run)
    env = policy.make_env()
    try:
        obs = env.step(
            {key: space.sample() for key, space in env.act_space.items()} | {"reset": True}
        )
    finally:
        env.close()
    batch = {key: np.stack([value, value]) for key, value in obs.items()}
    carry, action = policy(policy.initial(2), batch)
    for key, space in policy.act_space.items():
        assert action[key].shape == (2, *space.shape)
    actions = {k: np.stack([v] * 5, 1) for k, v in action.items()}
    predicted = policy.imagine(carry, actions)
    assert predicted["reward"].shape == predicted["continue"].shape == (2, 5)
    assert all(isinstance(value, np.ndarray) for value in predicted.values())
    assert (predicted["continue"] >= 0).all() and (predicted["continue"] <= 1).all()
    # One environment, without what a policy does not read.
    single = policy.step({k: v for k, v in obs.items() if k not in ("reward", "is_last")})
    assert all(single[key] in space for key, space in policy.act_space.items())
    with pytest.raises(KeyError, match="lacks the keys"):
        policy.step({"is_first": True})

    quiet = dreamerv3.load_policy(run / "ckpt", mode="deterministic")
    first, second = (quiet(quiet.initial(2), batch)[1] for _ in range(2))
    for key in first:
        assert np.array_equal(first[key], second[key])
    with pytest.raises(ValueError, match="mode"):
        dreamerv3.load_policy(run, mode="best")
