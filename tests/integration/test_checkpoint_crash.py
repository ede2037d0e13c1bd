"""Checkpoints under kill -9 and with a full disk."""

import os
import pathlib
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest

from embodied.core.checkpoint import Checkpoint

ROOT = pathlib.Path(__file__).parents[2]

SAVER = """
import sys
import numpy as np
from embodied.core.checkpoint import Checkpoint

class State:
    step = 0
    def save(self):
        return {"arrays": [np.full(50_000, self.step) for _ in range(4)], "step": self.step}
    def load(self, state):
        assert all((array == state["step"]).all() for array in state["arrays"])
        self.step = state["step"]

state = State()
checkpoint = Checkpoint(sys.argv[1], keep=2)
checkpoint.register("state", state)
checkpoint.load_or_save(0)
print(state.step, flush=True)
while True:
    state.step += 1
    checkpoint.save(state.step)
    checkpoint.wait()
    print(state.step, flush=True)
"""


class Holder:
    def __init__(self, state=None):
        self.state = state

    def save(self):
        return self.state

    def load(self, state):
        self.state = state


def make(directory, state=None):
    checkpoint = Checkpoint(directory, keep=2)
    holder = Holder(state)
    checkpoint.register("state", holder)
    return checkpoint, holder


@pytest.mark.slow
def test_kill_at_any_moment_loses_nothing_that_was_complete(tmp_path):
    rng = np.random.default_rng(0)
    reached = 0
    for _ in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", SAVER, str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        with process:
            started = int(process.stdout.readline())
            assert started >= reached
            for _ in range(rng.integers(0, 8)):
                reached = int(process.stdout.readline())
            # A moment between two lines, that is somewhere within a save.
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(rng.uniform(0, 0.03))
            process.send_signal(signal.SIGKILL)
            rest = process.stdout.read().split()
            reached = int(rest[-1]) if rest else max(reached, started)
        checkpoint, holder = make(tmp_path)
        assert checkpoint.load().step >= reached
        assert all((array == holder.state["step"]).all() for array in holder.state["arrays"])
    checkpoint, holder = make(tmp_path)
    checkpoint.load_or_save(0)
    folders = [name for name in os.listdir(tmp_path) if name != "latest"]
    assert not [name for name in folders if name.startswith("tmp-")]
    assert 1 <= len(folders) <= 3  # Killed before the oldest was deleted, there is one more.


def test_full_disk_is_reported_and_over_when_there_is_space(tmp_path, caplog):
    checkpoint, holder = make(tmp_path, np.zeros(1000))
    checkpoint.save(1)
    assert checkpoint.wait()
    holder.state = np.zeros(1_000_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    try:
        checkpoint.save(2)
        assert not checkpoint.wait()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "step 2 could not be completed" in caplog.text
    assert sorted(os.listdir(tmp_path)) == ["000001-step0000000001", "latest"]
    other, loaded = make(tmp_path)
    assert other.load().step == 1
    assert loaded.state.shape == (1000,)
    checkpoint.save(3)
    assert checkpoint.wait()
    assert other.load().step == 3
