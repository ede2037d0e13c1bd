"""Whole parallel runs without JAX: ends, ratio, resuming, signals, and the loss of each part."""

import functools
import os
import re
import signal
import subprocess
import time

import psutil
import pytest
from script_runs import command, environment, last_metrics, latest_step, lines, losses, run, started

from embodied.run.parallel.scripts import resolve

slow = functools.partial(pytest.param, marks=pytest.mark.slow)
OPTIONS = {"script": "parallel", "deterministic": False}


def parts(process):
    """Processes of a run by the name of their part."""
    found = {}
    for child in psutil.Process(process.pid).children(recursive=True):
        text = " ".join(child.cmdline())
        if "spawn_main" in text:
            found[child.pid] = child
    return found


@pytest.mark.slow
def test_budget_ratio_and_resuming_in_either_script(tmp_path):
    output = run(tmp_path, steps=1000, **OPTIONS)
    assert re.search(r"Ended at step 1,00\d \(2,0\d\d frames\)", output)
    step, updates = latest_step(tmp_path), len(losses(tmp_path))
    # Learning begins when there is a batch of items, 32, each 9 steps long, of 4 environments.
    assert abs(updates / ((step - 64) / 2) - 1) < 0.05
    episodes = [line["episode/score"] for line in lines(tmp_path / "scores.jsonl")]
    assert set(episodes) == {37}
    assert abs(len(episodes) - 4 * (step // 4 // 38)) <= 4
    metrics = last_metrics(tmp_path)
    assert abs(metrics["replay/items"] - step) <= 40
    assert metrics["epstats/log/coins/avg"] == 2

    output = run(tmp_path, steps=1500, **OPTIONS)
    assert f"Continuing at step {step:,} " in output
    later, more = latest_step(tmp_path), len(losses(tmp_path)) - updates
    assert abs(more / ((later - step) / 2) - 1) < 0.05
    output = run(tmp_path, steps=2000)
    assert f"Continuing at step {later:,} " in output
    assert abs((len(losses(tmp_path)) - updates - more) / ((2000 - later) / 2) - 1) < 0.05
    output = run(tmp_path, steps=2100, **OPTIONS)
    assert "Continuing at step 2,000 " in output


def test_signal_saves_and_ends(tmp_path):
    with started(
        tmp_path, r"\| [1-9]\d* updates", steps=10**6, log_every=0.3, **OPTIONS
    ) as process:
        children = list(parts(process).values())
        process.send_signal(signal.SIGTERM)
        output = process.stdout.read()
        assert process.wait(20) == 143
    assert len(children) == 7  # Agent, replay, logger and four environments.
    assert not psutil.wait_procs(children, timeout=20)[1]
    step = latest_step(tmp_path)
    assert step > 0
    assert f"Ended at step {step:,}" in output


@pytest.mark.slow
def test_failing_environment_ends_the_run_with_its_traceback(tmp_path):
    with started(tmp_path, "^Budget", steps=10**6, fail_at=100, **OPTIONS) as process:
        children = list(parts(process).values())
        output = process.stdout.read()
        assert process.wait(20) == 1
    assert "error: Env worker 2 failed at step " in output
    assert "ZeroDivisionError: the env is broken" in output
    assert "The part 'env2' has ended with exit code 1" in output
    assert "the env is broken" in (tmp_path / "error.txt").read_text()
    assert not psutil.wait_procs(children, timeout=20)[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "victim", ["agent", "env1", *map(slow, ["replay", "logger", "supervisor"])]
)
def test_killed_part_ends_or_heals_the_run(tmp_path, victim):
    options = {"steps": 10**6, "log_every": 0.3, **OPTIONS}
    with started(tmp_path, r"\| [1-9]\d* updates", **options) as process:
        children = list(parts(process).values())
        # Parts are started in this order.
        order = ["replay", "logger", "agent", "env0", "env1", "env2", "env3"]
        children.sort(key=lambda child: child.create_time())
        ordered = dict(zip(order, children, strict=True))
        if victim == "supervisor":
            process.kill()
        else:
            os.kill(ordered[victim].pid, signal.SIGKILL)
        if victim == "env1":
            for line in process.stdout:
                if "is started again" in line:
                    break
            assert "The part 'env1' has ended with signal 9 (SIGKILL)" in line
            before = len(losses(tmp_path))
            deadline = time.monotonic() + 20
            while len(losses(tmp_path)) < before + 200 and time.monotonic() < deadline:
                time.sleep(0.1)
            assert len(losses(tmp_path)) >= before + 200
            process.send_signal(signal.SIGINT)
            process.stdout.read()
            assert process.wait(20) == 130
        elif victim != "supervisor":
            output = process.stdout.read()
            assert process.wait(20) == 1
            assert f"The part '{victim}' has ended with signal 9" in output
    assert not psutil.wait_procs(children, timeout=20)[1]


@pytest.mark.slow
def test_environments_and_replay_started_by_themselves(tmp_path):
    """The pieces find each other; environments outlive an agent and serve the next one."""
    ports = {key: resolve("localhost:{auto}") for key in ("actor_addr", "replay_addr")}
    common = {"deterministic": False, **ports}
    pieces = []
    for piece in ("envs", "replay"):
        options = {**common, "script": f"parallel_{piece}"}
        (tmp_path / piece).mkdir()
        program = command(tmp_path / piece, options)
        pieces.append(subprocess.Popen(program, env=environment()))
    try:
        remote = {**OPTIONS, **ports, "remote_envs": True, "remote_replay": True}
        run(tmp_path, steps=500, **remote)
        output = run(tmp_path, steps=900, **remote)
        assert "Continuing at step 50" in output
        assert (tmp_path / "replay" / "replay").is_dir()
    finally:
        for process in pieces:
            process.terminate()
        codes = [process.wait(20) for process in pieces]
    assert codes == [143, 143]
