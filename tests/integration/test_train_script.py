"""Whole runs of the train script: budget, resuming, signals, failures."""

import contextlib
import json
import os
import re
import shutil
import signal

import psutil
import pytest
from script_runs import last_metrics, latest_step, lines, losses, manifest, run, started


def test_budget_then_resume(tmp_path):
    output = run(tmp_path, steps=3000)
    assert "Ended at step 3,000 (6,000 frames)" in output
    assert latest_step(tmp_path) == 3000
    assert manifest(tmp_path)["config"]["usage.psutil"] is True
    first = last_metrics(tmp_path)
    assert first["step"] == 6000  # Frames: two per agent step.
    # One update when there are 32 items, 4 x 8 steps after the windows began to fill, then 1/2.
    updates = len(losses(tmp_path))
    assert abs(updates - (3000 - 64) / 2) <= 2

    output = run(tmp_path, steps=6000)
    assert f"Continuing at step 3,000 (6,000 frames) with {updates:,} updates" in output
    assert latest_step(tmp_path) == 6000
    second = last_metrics(tmp_path)
    assert second["step"] == 12000
    assert second["replay/items"] == first["replay/items"] + 3000  # Not twice what was there.
    assert abs(len(losses(tmp_path)) - updates - 1500) <= 1  # No burst.
    steps = [line["step"] for line in lines(tmp_path / "scores.jsonl")]
    assert steps == sorted(steps)
    assert max(step for step in steps if step <= 6000) > 5700

    folders = sorted(os.listdir(tmp_path / "ckpt"))
    output = run(tmp_path, steps=6000)
    assert "Continuing at step 6,000" in output
    assert sorted(os.listdir(tmp_path / "ckpt")) == folders


def test_stopping_at_the_start_of_episodes_and_continuing_changes_nothing(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    episodes = 4 * 38  # Four environments, 37 steps and a reset each.
    run(whole, steps=episodes * 10)
    run(parts, steps=episodes * 3, save_every=-1.0)
    run(parts, steps=episodes * 10)
    assert losses(whole) == losses(parts)
    assert lines(whole / "scores.jsonl") == lines(parts / "scores.jsonl")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_saves_and_ends(tmp_path, number):
    options = {"steps": 10**6, "log_every": 0.2, "deterministic": False}
    with started(tmp_path, r"\| [1-9]\d* updates", **options) as process:
        process.send_signal(number)
        output = process.stdout.read()
        assert process.wait(20) == 128 + number
    assert re.search(
        rf"Got {signal.Signals(number).name}, stopping\..* everything is saved", output
    )
    assert ("Another Ctrl+C ends at once" in output) is (number == signal.SIGINT)
    assert "with this --logdir continues" in output
    step = latest_step(tmp_path)
    assert step > 0
    assert f"Ended at step {step:,}" in output
    before = len(losses(tmp_path))
    output = run(tmp_path, steps=step + 1000)
    assert f"Continuing at step {step:,} " in output
    assert f"{before:,} updates" in output
    # Where a vector step was cut, the updates of its last transition come later.
    assert abs(len(losses(tmp_path)) - before - 500) <= 3


@pytest.mark.slow
def test_second_interrupt_ends_at_once(tmp_path):
    with started(tmp_path, "^Budget", steps=10**6, update_seconds=60) as process:
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        for line in process.stdout:
            if "Got SIGINT" in line:
                break
        process.send_signal(signal.SIGINT)
        output = process.stdout.read()
        assert process.wait(20) == 130
    assert "Ending at once, without saving." in output
    assert children
    assert not psutil.wait_procs(children, timeout=20)[1]


@pytest.mark.slow
def test_signal_ends_a_set_up_that_hangs_in_native_code(tmp_path):
    with started(tmp_path, "^Hanging", hang="setup") as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 143
    assert not (tmp_path / "ckpt").exists()


def test_signal_interrupts_waiting_for_environments(tmp_path):
    # Every environment hangs in its 300th step, so 299 steps of each are complete.
    options = {"steps": 10**6, "log_every": -1.0, "fail_at": -300}
    with started(tmp_path, "^Step 1,188 ", **options) as process:
        process.send_signal(signal.SIGTERM)
        output = process.stdout.read()
        assert process.wait(20) == 143
    assert "Ended at step" in output
    assert latest_step(tmp_path) == int(
        re.search(r"Ended at step ([\d,]+)", output)[1].replace(",", "")
    )


@pytest.mark.slow
def test_failing_environment_ends_the_run_with_its_traceback(tmp_path):
    with started(tmp_path, "^Budget", steps=10**6, fail_at=500) as process:
        children = psutil.Process(process.pid).children(recursive=True)
        output = process.stdout.read()
        assert process.wait(20) == 1
    assert "ZeroDivisionError: the env is broken" in output
    assert re.search(r"\b2\b.*\b500\b", output)
    assert not psutil.wait_procs(children, timeout=20)[1]
    # Nothing was saved since the start, and what was logged is complete.
    assert latest_step(tmp_path) == 0
    assert lines(tmp_path / "scores.jsonl")


def test_checkpoints_that_cannot_be_written_do_not_stop_the_run_but_fail_its_end(tmp_path):
    (tmp_path / "ckpt").write_text("in the way")
    output = run(tmp_path, code=1, steps=400)
    assert "The checkpoint of step 400 could not be completed" in output
    assert "RuntimeError: The last checkpoint, at step 400, could not be written" in output
    assert last_metrics(tmp_path)["step"] == 800


@pytest.mark.slow
def test_full_disk_is_reported_at_once_and_over_when_there_is_space(tmp_path):
    options = {"save_every": -1.0, "log_every": -1.0, "update_seconds": 0.002}
    output = run(tmp_path, steps=1600, disk="full", **options)
    before, _, rest = output.partition("The disk is full.")
    during, _, after = rest.partition("There is space again.")
    assert "WARNING" not in before + after
    # Reported by the first save, which is tried after every ten steps here, and by the logs.
    assert "could not be completed, the previous one stays in use" in during
    assert "Log output JSONLWriter failed to write" in during
    assert re.search(r"Step (8|9)\d\d of", during)  # It went on.
    assert latest_step(tmp_path) == 1600
    assert len(os.listdir(tmp_path / "ckpt")) == 3
    assert not list(tmp_path.rglob("*tmp*"))
    assert last_metrics(tmp_path)["step"] == 3200
    for line in (tmp_path / "metrics.jsonl").read_text().splitlines():
        with contextlib.suppress(json.JSONDecodeError):  # Of the line that did not fit.
            assert json.loads(line)["step"] >= 0
    assert "Continuing at step 1,600" in run(tmp_path, steps=1610)


@pytest.mark.slow
def test_removed_folder_comes_back_with_the_next_save(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    run(folder, steps=1000, disk="removed", save_every=-1.0)
    assert latest_step(folder) == 1000
    output = run(folder, steps=1040)
    assert "Continuing at step 1,000" in output
    assert last_metrics(folder)["replay/items"] == 1040 - 4 * 8


@pytest.mark.slow
def test_damaged_folder_does_not_end_the_project(tmp_path):
    run(tmp_path, steps=2000, chunksize=64)
    files = sorted((tmp_path / "replay").glob("*.npz"))
    assert len(files) > 30
    files[5].write_bytes(files[5].read_bytes()[: files[5].stat().st_size // 2])
    files[12].write_bytes(os.urandom(files[12].stat().st_size))
    files[20].unlink()
    good = tmp_path / "ckpt" / (tmp_path / "ckpt" / "latest").read_text()
    incomplete = good.with_name("000099-step0000002000")
    shutil.copytree(good, incomplete)
    (incomplete / "SHA256SUMS").unlink()

    output = run(tmp_path, steps=3000, chunksize=64)
    warnings = re.findall(r"Skipping a damaged .*", output)
    assert len(warnings) == 3
    for path in (files[5], files[12], incomplete):
        assert sum(path.name in warning for warning in warnings) == 1
    assert "Continuing at step 2,000" in output
    assert latest_step(tmp_path) == 3000
    # Three chunks of 64 steps are gone, and windows that would begin before or go over the gap.
    items = last_metrics(tmp_path)["replay/items"]
    assert 3000 - 4 * 8 - 3 * (64 + 8) <= items <= 3000 - 3 * 64


def test_limit_of_time(tmp_path):
    output = run(tmp_path, steps=10**9, duration=0.5)
    step = latest_step(tmp_path)
    assert 0 < step < 10**9
    assert f"Ended at step {step:,}" in output


@pytest.mark.slow
def test_start_from_another_run(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    run(first, steps=400)
    options = {"from_checkpoint": str(first), "steps": 400}
    output = run(second, **options)
    assert f"Loading the agent from {first}" in output
    updates = len(losses(first))
    assert min(losses(second)) == updates + 1
    # A restart continues the new run rather than beginning with the other one again.
    output = run(second, **{**options, "steps": 800})
    assert "Loading the agent" not in output
    assert "Continuing at step 400" in output


def test_messages_reports_and_metric_names(tmp_path):
    output = run(tmp_path, steps=1200, envs=1, log_every=-1.0, report_every=-1.0)
    for phase in ("Building the agent", "Opening the replay", "Starting 1 environment"):
        assert re.search(rf"{phase}( \(.*\))? \.\.\.", output)
        assert re.search(rf"{phase}: done in \d+\.\d s", output)
    assert "0.5 updates per agent step, 0.25 per frame" in output
    assert "of memory" in output
    assert re.search(r"Measured 20 updates: .* for the rest of the budget", output)
    assert re.search(r"Step 10 of 1,200 \(0.8%\) \| 0 updates \| .* 2 of 32 items", output)
    assert re.search(r"Step 1,200 of 1,200 \(100.0%\) \| \d+ updates \| .* 0 s left", output)
    names = {key for line in lines(tmp_path / "metrics.jsonl") for key in line}
    public = """
        step fps/policy fps/train replay/chunks replay/inserts replay/items replay/ram_gb
        replay/replay_ratio replay/samples replay/streams replay/updates train/opt/updates
        usage/psutil/proc_cpu_usage usage/psutil/total_ram_used_gb
        episode/score episode/length epstats/reward_rate epstats/log/coins/avg
        epstats/log/coins/max epstats/log/coins/sum report/loss/count
    """
    assert set(public.split()) <= names
    ratio = last_metrics(tmp_path, "train/ratio")["train/ratio"]
    assert ratio == pytest.approx(16, rel=0.2)  # Over ten steps only, as it is logged all the time.
    assert list((tmp_path / "scope" / "timer.txt").glob("*.txt"))
