"""Whole runs of train_eval, eval_only, collect and offline without JAX."""

import json
import signal
import subprocess
import time

import psutil
import pytest
from script_runs import (
    command,
    environment,
    last_metrics,
    latest_step,
    lines,
    losses,
    run,
    started,
)

from embodied.core.snapshot import open_snapshot
from embodied.run.parallel.scripts import resolve


def scores(path, key):
    return [line[key] for line in lines(path) if key in line]


def test_train_eval(tmp_path):
    # Two environments of 37 and 47 steps take turns, however short their episodes are.
    options = {"script": "train_eval", "envs": 1, "longer": 10, "report_every": -1.0}
    options["keep_best"] = True
    output = run(tmp_path, steps=200, **options)
    assert "Evaluation: mean score 41 of 5 episodes." in output
    evaluated = scores(tmp_path / "eval_scores.jsonl", "eval/episode/score")
    assert set(evaluated) == {41}
    assert scores(tmp_path / "scores.jsonl", "episode/score") == [37] * 5
    assert last_metrics(tmp_path, "eval/loss/count")["step"] == 400
    assert last_metrics(tmp_path, "eval/epstats/reward_rate")["step"] == 400
    # Only the first evaluation was better than all before.
    best = json.loads((tmp_path / "ckpt" / "best.json").read_text())
    assert best == {"score": 41, "step": open_snapshot(tmp_path / "ckpt" / "best").step}
    assert best["step"] < latest_step(tmp_path) == 200
    # Evaluations have no influence on training.
    alone = tmp_path / "alone"
    alone.mkdir()
    run(alone, steps=200, envs=1)
    assert losses(tmp_path) == losses(alone)
    # The last evaluation was at the end, and a run that is over makes none.
    assert lines(tmp_path / "eval_scores.jsonl")[-1]["step"] == 400
    output = run(tmp_path, steps=300, **{**options, "report_every": 0.0})
    assert "Continuing at step 200" in output
    assert len(scores(tmp_path / "eval_scores.jsonl", "eval/episode/score")) == len(evaluated) + 1


def test_eval_only(tmp_path):
    trained, logdir = tmp_path / "run", tmp_path / "eval"
    trained.mkdir()
    run(trained, steps=200)
    limit = {"mode": "sample", "max_length": 40, "video": True}
    options = {"script": "eval_only", "from_checkpoint": str(trained), "eval_eps": 3}
    output = run(logdir, longer=10, eval=limit, **options)
    assert "Cut off an episode of environment 1 after 40 steps" in output
    assert [line["score"] for line in lines(logdir / "episodes.jsonl")] == [37, 40, 37]
    summary = json.loads((logdir / "summary.json").read_text())
    assert (summary["score_mean"], summary["episodes"], summary["step"]) == (37, 3, 200)
    assert summary["partial"] == 1
    partial = [line.get("partial", False) for line in lines(logdir / "episodes.jsonl")]
    assert partial == [False, True, False]
    run(logdir, **options)
    assert len(lines(logdir / "episodes.jsonl")) == 3


def test_collect_then_train_offline(tmp_path):
    first, trained, stored, learned = (tmp_path / x for x in ("first", "run", "data", "offline"))
    for folder in (first, trained, stored, learned):
        folder.mkdir()
    run(trained, steps=100)
    collect = {"script": "collect", "from_checkpoint": str(trained)}
    run(stored, steps=300, **collect)
    output = run(stored, steps=600, **collect)
    assert "Continuing at step 300" in output
    assert len(lines(stored / "scores.jsonl")) == 4 + 4  # Episodes begin anew after a restart.
    assert not (stored / "losses.txt").exists()
    before = {path: path.read_bytes() for path in stored.rglob("*") if path.is_file()}

    offline = {"script": "offline", "from_replay": str(stored)}
    output = run(learned, steps=400, log_every=-1.0, **offline)
    items = last_metrics(stored)["replay/items"]
    assert f"Learning from {items:,} items" in output
    assert len(losses(learned)) == 200  # An update pays for 32 trained steps, 16 per step.
    output = run(learned, steps=800, **offline)
    assert "Continuing at step 400 (800 frames) with 200 updates" in output
    assert len(losses(learned)) == 400
    assert latest_step(learned) == 800
    assert last_metrics(learned)["replay/items"] == items
    assert {path: path.read_bytes() for path in stored.rglob("*") if path.is_file()} == before
    output = run(first, code=1, script="offline", from_replay=str(tmp_path / "empty"))
    assert "Got 0 items" in output
    assert not (first / "ckpt").exists()  # So that the right folder can be given next.


@pytest.mark.slow
def test_overlap_makes_the_same_updates_later(tmp_path):
    options = {"overlap": 20, "deterministic": False}
    # An update takes as long as many steps, but is never skipped. The first one is earlier by as
    # much as collecting is ahead.
    output = run(tmp_path, steps=400, update_seconds=0.002, log_every=0.1, **options)
    updates = len(losses(tmp_path))
    assert (400 - 64) / 2 - 2 <= updates <= (400 - 64 + 20) / 2 + 2
    assert f"Ended at step 400 (800 frames) with {updates} updates" in output
    output = run(tmp_path, steps=800, **options)
    assert abs(len(losses(tmp_path)) - updates - 200) <= 1
    # Taking turns is what a seed determines, so that it wins.
    for name, more in {"turns": {}, "overlap": {"overlap": 20}}.items():
        (tmp_path / name).mkdir()
        run(tmp_path / name, steps=200, **more)
    assert losses(tmp_path / "turns") == losses(tmp_path / "overlap")


@pytest.mark.slow
def test_overlap_ends_with_the_error_of_the_learner_or_a_signal(tmp_path):
    options = {"steps": 10**6, "overlap": 20, "deterministic": False, "log_every": 0.2}
    with started(tmp_path, r"\| [1-9]\d* updates", **options) as process:
        process.send_signal(signal.SIGTERM)
        output = process.stdout.read()
        assert process.wait(20) == 143
    step = latest_step(tmp_path)
    assert f"Ended at step {step:,}" in output
    output = run(tmp_path, code=1, **{**options, "update_seconds": -1.0})
    assert "ValueError: sleep length must be non-negative" in output


def test_processes_that_train_together_log_save_and_stop_together(tmp_path):
    """Each has a clock of its own, and one gets a signal, but only the first one decides."""
    options = {"steps": 10**6, "replicas": 2, "coordinator_address": resolve("localhost:{auto}")}
    options |= {"parallel": "False", "log_every": 0.1, "save_every": 0.3, "report_every": 0.2}
    folders = [tmp_path / "first", tmp_path / "second"]
    processes = []
    for replica, folder in enumerate(folders):
        folder.mkdir()
        processes.append(
            subprocess.Popen(
                command(folder, {**options, "replica": replica}),
                env=environment(),
                stdout=subprocess.DEVNULL,
            )
        )
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if (folders[0] / "losses.txt").exists() and len(losses(folders[0])) > 200:
                break
            time.sleep(0.1)
        processes[0].send_signal(signal.SIGTERM)
        assert [process.wait(30) for process in processes] == [143, 0]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert latest_step(folders[0]) == latest_step(folders[1]) > 0
    for key in ("replay/items", "report/loss/count", "fps/policy"):
        steps = [
            [line["step"] for line in lines(folder / "metrics.jsonl") if key in line]
            for folder in folders
        ]
        assert steps[0] == steps[1]
    assert losses(folders[0]).keys() == losses(folders[1]).keys()


@pytest.mark.parametrize(
    "script",
    [
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("train_eval", "eval_only")),
        "collect",
    ],
)
def test_failing_environment_ends_a_script_and_all_its_processes(tmp_path, script):
    options = {"script": script, "steps": 10**6, "fail_at": 500, "eval_envs": 4, "eval_eps": 10**6}
    until = "^Episode 1 " if script == "eval_only" else "^Budget"
    with started(tmp_path, until, **options) as process:
        children = psutil.Process(process.pid).children(recursive=True)
        output = process.stdout.read()
        assert process.wait(20) == 1
    assert "ZeroDivisionError: the env is broken" in output
    assert children
    assert not psutil.wait_procs(children, timeout=20)[1]
