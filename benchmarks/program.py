"""The program as a process of its own, with its output line by line."""

from __future__ import annotations

import os
import pathlib
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

import psutil

ROOT = pathlib.Path(__file__).resolve().parents[1]
#: Seconds that it has for ending after a signal.
GRACE = 20.0


class FailedError(Exception):
    """Something that a run must never do."""


class Program:
    """A run of the program.

    Attributes:
      process: Its process.
      started: When it was started, in seconds of the monotonic clock.
      lines: What it has printed so far.
    """

    def __init__(
        self, options: Sequence[str], folder: pathlib.Path, cache: pathlib.Path | str
    ) -> None:
        """Start it.

        Args:
          options: Its command line.
          folder: Its logdir.
          cache: Folder of compiled programs.
        """
        command = [sys.executable, str(ROOT / "dreamerv3" / "main.py"), *options]
        command += ["--logdir", str(folder), "--jax.cache", str(cache)]
        # A folder in this variable would win over the option.
        variables = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=variables
        )
        self.lines: list[str] = []
        self._queue: queue.Queue[tuple[float, str | None]] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def memory(self) -> int:
        """Most bytes of memory that the process itself has had so far."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status")
        if not status.exists():
            return psutil.Process(self.process.pid).memory_info().rss
        return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1])

    @property
    def memory_of_children(self) -> int:
        """Bytes of memory of the processes that it has started, counting shared ones again."""
        total = 0
        for child in psutil.Process(self.process.pid).children(recursive=True):
            try:
                total += child.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        return total

    def wait_for(self, pattern: str, seconds: float) -> tuple[float, re.Match]:
        """Return when the first line came that matches, in seconds from the start, and the match.

        Raises:
          FailedError: If the program ends or takes longer.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                moment, line = self._queue.get(timeout=max(deadline - time.monotonic(), 0.01))
            except queue.Empty:
                raise FailedError(f"no '{pattern}' within {seconds:.0f} s") from None
            if line is None:
                raise FailedError(f"ended before '{pattern}':\n" + "".join(self.lines[-40:]))
            found = re.search(pattern, line)
            if found:
                return moment - self.started, found

    def end(self, number: int) -> tuple[float, list[int]]:
        """Send a signal; return the seconds until the end and the processes that are left.

        Raises:
          FailedError: If it does not end in time or not with the code of the signal.
        """
        family = [psutil.Process(self.process.pid)]
        family += family[0].children(recursive=True)
        start = time.monotonic()
        self.process.send_signal(number)
        try:
            code = self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            raise FailedError(f"still there {GRACE:.0f} s after signal {number}") from None
        seconds = time.monotonic() - start
        left = psutil.wait_procs(family, timeout=10)[1]
        # Python itself ends with the signal before the program can handle it.
        if code not in (-number, 128 + number):
            raise FailedError(f"exit code {code}:\n" + "".join(self.lines[-40:]))
        return seconds, [process.pid for process in left]

    def kill(self) -> None:
        """End it at once, if it still runs; its own processes end with it."""
        self.process.kill()
        self.process.wait()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            self._queue.put((time.monotonic(), line))
        self._queue.put((time.monotonic(), None))
