"""An environment for the tests of worker processes, light to import; it fails as told."""

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import ml_dtypes
import numpy as np

from embodied.core.interfaces import Env
from embodied.core.space import Space


def fail(how):
    if how == "raise":
        raise OSError("connection to the simulator lost")
    if how == "sleep":
        time.sleep(1000)
    if how == "spin":
        while True:
            pass
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "segfault":
        ctypes.string_at(0)
    if how == "interrupt":
        raise KeyboardInterrupt("of its own")
    if how == "generator":
        raise GeneratorExit
    if how == "exit":
        os._exit(7)


class ProcessEnv(Env):
    """Observations of many dtypes and sizes that depend on worker, step and action.

    Args:
        worker: Number that shows in the observations.
        step: Number of the `step` call that fails, 0 is the constructor, -1 none.
        how: See `fail`.
        image: Height and width of the image.
        report: File to which process ids are appended: of this process and of a program it starts.
        slow_close: Whether closing never ends.
        forks: Whether each step forks a process that exits like any Python program.
    """

    def __init__(
        self, worker=0, step=-1, how="raise", image=8, report=None, slow_close=False, forks=False
    ):
        self.forks = forks
        self.worker = worker
        self.fail_step = step
        self.how = how
        self.image = image
        self.steps = 0
        self.count = 0
        self.slow_close = slow_close
        if report:
            code = "import time; time.sleep(1000)"
            program = subprocess.Popen([sys.executable, "-c", code])
            forked = os.fork()
            if not forked:
                time.sleep(1000)
            with open(report, "a") as file:
                file.write(f"{os.getpid()} {program.pid} {forked}\n")
        if step == 0:
            fail(how)

    @property
    def obs_space(self):
        spaces = {
            "image": Space(np.uint8, (self.image, self.image, 3)),
            "vector": Space(np.float32, (3,)),
            "half": Space(ml_dtypes.bfloat16, (2, 2)),
            "long": Space(np.int64),
            "empty": Space(np.float32, (0,)),
            "jax": Space(bool),
            "log/sometimes": Space(np.float32, (2,)),
            "reward": Space(np.float32),
            "is_first": Space(bool),
            "is_last": Space(bool),
            "is_terminal": Space(bool),
        }
        # The order of declaration must not matter.
        return dict(reversed(spaces.items())) if self.worker % 2 else spaces

    @property
    def act_space(self):
        spaces = {
            "move": Space(np.float32, (3,), -1, 1),
            "button": Space(np.int32, (), 0, 4),
            "reset": Space(bool),
        }
        return dict(reversed(spaces.items())) if self.worker % 2 else spaces

    def step(self, action):
        self.steps += 1
        self.count = 0 if action["reset"] else self.count + 1
        if self.forks:
            process = multiprocessing.get_context("fork").Process(target=sys.exit)
            process.start()
            process.join()
            assert process.exitcode == 0
        invalid = np.float32(np.inf if self.how == "inf" else 0)
        if self.steps == self.fail_step:
            fail(self.how)
        else:
            invalid = np.float32(0)
        obs = {
            "image": np.full((self.image, self.image, 3), self.worker + self.count, np.uint8),
            "vector": np.array(action["move"]) + invalid,
            "half": np.full((2, 2), self.count, ml_dtypes.bfloat16),
            "long": np.int64(2**40 + int(action["button"])),
            "empty": np.zeros(0, np.float32),
            "jax": "jax" in sys.modules,
            "reward": np.float32(self.worker),
            "is_first": np.bool_(self.count == 0),
            "is_last": np.bool_(self.count == 10),
            "is_terminal": np.bool_(False),
        }
        if self.steps % 3 == 0:
            obs["log/sometimes"] = np.full(2, self.steps, np.float32)
        return obs

    def close(self):
        if self.slow_close:
            time.sleep(1000)
