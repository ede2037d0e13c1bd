"""Starts runs of `train_script.py` and reads what they leave behind."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import threading

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = pathlib.Path(__file__).parent / "train_script.py"


def command(logdir, options):
    return [sys.executable, str(SCRIPT), json.dumps({"logdir": str(logdir), **options})]


def environment():
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def run(logdir, code=0, **options):
    """Run to the end; return what was printed."""
    done = subprocess.run(
        command(logdir, {"parallel": "False", **options}),
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
    )
    assert done.returncode == code, done.stdout
    return done.stdout


@contextlib.contextmanager
def started(logdir, until, **options):
    """Start a run and wait until it has printed something; yield the process."""
    process = subprocess.Popen(
        command(logdir, options),
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    guard = threading.Timer(100, process.kill)
    guard.start()
    try:
        for line in process.stdout:
            if re.search(until, line):
                break
        else:
            pytest.fail(f"The run ended without printing '{until}'.")
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        guard.cancel()
        guard.join()


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def losses(logdir):
    rows = [line.split(" ", 1) for line in (logdir / "losses.txt").read_text().splitlines()]
    return {int(number): value for number, value in rows}


def manifest(logdir):
    name = (logdir / "ckpt" / "latest").read_text()
    return json.loads((logdir / "ckpt" / name / "manifest.json").read_text())


def latest_step(logdir):
    return manifest(logdir)["step"]


def last_metrics(logdir, key="replay/items"):
    return [line for line in lines(logdir / "metrics.jsonl") if key in line][-1]
