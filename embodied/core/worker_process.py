"""The driver's handle of one environment worker process; the process itself runs `worker`."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import cloudpickle

from embodied.core.checked_env import WorkerError
from embodied.core.layout import write_all

_BOOTSTRAP = """\
import sys
sys.path[:], sys.argv[:] = {path!r}, {argv!r}
from embodied.core.worker import main
main{descriptors!r}
"""

# One thread per worker, as there is a worker per environment, and no accelerator. The user's win.
_VARIABLES = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
}


class WorkerProcess:
    """A process with one environment, and the driver's ends of the two pipes to it.

    The process is a fresh interpreter (not a fork) with the module search path and the arguments of
    this one. It has a process group of its own, so that Ctrl-C does not reach it and so that
    whatever the environment starts ends with it.

    Attributes:
        index: Number of the worker.
        replies: File descriptor of the replies, for polling.
    """

    def __init__(self, index: int, make_env: Callable[[], Any], lifeline: int) -> None:
        """Start the process, which constructs its environment meanwhile.

        Args:
            index: Number of the worker.
            make_env: Constructor, sent with cloudpickle.
            lifeline: Reading end of a pipe whose other end this process keeps open while it lives.

        Raises:
            WorkerError: If the constructor cannot be pickled.
        """
        self.index = index
        payload = cloudpickle.dumps(index) + _pickled(index, make_env)
        theirs, self._requests = os.pipe()
        self.replies, ours = os.pipe()
        os.set_blocking(self.replies, False)
        descriptors = (theirs, ours, lifeline)
        code = _BOOTSTRAP.format(path=sys.path, argv=sys.argv, descriptors=descriptors)
        flags = [f"-W{option}" for option in sys.warnoptions]
        # A file rather than a pipe, so that a large constructor does not wait for a slow start.
        with tempfile.TemporaryFile() as stdin:
            stdin.write(payload)
            stdin.seek(0)
            self._process = subprocess.Popen(
                [sys.executable, *flags, "-c", code],
                stdin=stdin,
                pass_fds=descriptors,
                process_group=0,
                env={**_VARIABLES, **os.environ},
            )
        os.close(theirs)
        os.close(ours)

    def send(self, message: memoryview) -> None:
        """Send a message.

        Raises:
            BrokenPipeError: If the worker is gone.
        """
        write_all(self._requests, message)

    def receive(self, buffer: memoryview) -> int | None:
        """Read what is there: number of bytes, 0 if the worker is gone, None if there is none."""
        try:
            return os.readv(self.replies, [buffer])
        except BlockingIOError:
            return None

    def receive_last_words(self) -> bytes:
        """Return all that a worker wrote before it closed its end."""
        os.set_blocking(self.replies, True)
        parts = []
        while part := os.read(self.replies, 1 << 16):
            parts.append(part)
        return b"".join(parts)

    def hang_up(self) -> None:
        """Close the pipes, which asks the worker to close its environment and exit."""
        os.close(self._requests)
        os.close(self.replies)

    def wait(self, seconds: float) -> bool:
        """Wait for the exit of the process; return whether it came."""
        try:
            self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """Kill the process, if it still runs, and whatever its environment has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def explain_exit(self) -> str:
        """Say how the process ended that hung up without a word."""
        if not self.wait(5.0):
            return "its process closed its pipes without exiting."
        code = self._process.returncode
        if code >= 0:
            return f"its process ended itself with exit code {code}, expected it to keep stepping."
        if -code == signal.SIGKILL:
            hint = (
                "if nobody did so on purpose, the system ran out of memory: run fewer environments"
            )
            return f"its process was killed by signal 9 (SIGKILL); {hint} or give them more memory."
        name = signal.Signals(-code).name
        hint = "the crash is in native code, see the stack on the error output"
        return f"its process was killed by signal {-code} ({name}); {hint}."


def _pickled(index: int, make_env: Callable[[], Any]) -> bytes:
    try:
        return cloudpickle.dumps(make_env)
    except Exception as error:
        advice = "construct such objects inside the constructor, or run without processes"
        reason = f"its constructor cannot be sent to a process ({error}); {advice}."
        raise WorkerError(index, 0, reason) from error
