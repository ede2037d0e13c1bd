"""Environments in worker processes, one each, stepped in lockstep through pipes."""

import contextlib
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import time
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import cloudpickle
import numpy as np

from embodied.core.interfaces import Env
from embodied.core.stepping.checked_env import WorkerError
from embodied.core.stepping.group import EnvGroup
from embodied.core.stepping.messages import Reply, row_dtype, write_all

_BOOTSTRAP = """\
import sys
sys.path[:], sys.argv[:] = {path!r}, {argv!r}
from embodied.core.stepping.worker import main
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
        content: bytes = cloudpickle.dumps(make_env)
        return content
    except Exception as error:
        advice = "construct such objects inside the constructor, or run without processes"
        reason = f"its constructor cannot be sent to a process ({error}); {advice}."
        raise WorkerError(index, 0, reason) from error


_GRACE = 5.0  # Seconds that environments have for closing before they are killed.
_GRACE_AFTER_FAILURE = 1.0


class ProcessEnvs(EnvGroup):
    """One worker process per environment.

    All actions are sent before the first reply is awaited, each as one message of fixed size.
    Replies are read in worker order without polling; while one is awaited, the death of any other
    worker is noticed as well.
    """

    def __init__(self, make_env_fns: Sequence[Callable[[], Env]], timeout: float = 0) -> None:
        """Start the processes and wait until all environments are constructed.

        Args:
            make_env_fns: Constructors, sent to the processes with cloudpickle.
            timeout: Seconds that one step may take, 0 for any time. Construction may take any time.

        Raises:
            WorkerError: If a constructor fails or spaces differ; no process is left then.
        """
        self._timeout = timeout
        self._steps = 0
        self._stepping = False
        self._workers: list[WorkerProcess] = []
        lifeline, ours = os.pipe()
        self._finalizer = weakref.finalize(self, _shut_down, self._workers, ours, _GRACE)
        try:
            for index, make_env in enumerate(make_env_fns):
                self._workers.append(WorkerProcess(index, make_env, lifeline))
            self._poller = select.poll()
            for worker in self._workers:
                self._poller.register(worker.replies, 0)
            self._prepare([self._receive_object(worker) for worker in self._workers])
        except BaseException:
            self._abort()
            raise
        finally:
            os.close(lifeline)

    def __len__(self) -> int:
        return len(self._workers)

    def step(
        self, actions: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
        """Step all environments; see `EnvGroup`."""
        if self._stepping or not self._finalizer.alive:
            raise RuntimeError(
                "Got a step after closing or an interrupted step, expected open environments: "
                "make new ones."
            )
        self._stepping = True
        self._steps += 1
        for key in self.act_space:
            self._actions[key] = actions[key]
        try:
            self._send_all()
            self._receive_all()
        except WorkerError:
            self._abort()
            raise
        self._stepping = False
        obs = {key: self._observations[key].copy() for key in self.obs_space}
        return obs, [
            layout.logs(row) for layout, row in zip(self._layouts, self._replies, strict=True)
        ]

    def close(self) -> None:
        """End all processes: asked to first, killed after a few seconds."""
        self._finalizer()

    def _prepare(self, spaces: Sequence[Any]) -> None:
        """Allocate the messages once and for all."""
        self._set_spaces(spaces)
        size = len(self._workers)
        self._actions = np.zeros(size, row_dtype(self.act_space))
        messages = self._actions.view(np.uint8).reshape(size, -1)
        self._sending = [(x, y.data) for x, y in zip(self._workers, messages, strict=True)]
        self._layouts = [Reply(obs_space, log_space) for obs_space, log_space, _ in spaces]
        stride = -(-max(layout.size for layout in self._layouts) // 64) * 64
        self._replies = np.zeros((size, stride), np.uint8)
        self._headers = self._replies[:, : Reply.HEADER].view(np.int64)[:, 0]
        self._observations = self._layouts[0].observations(self._replies)
        buffers = [x.data[: y.size] for x, y in zip(self._replies, self._layouts, strict=True)]
        self._receiving = list(zip(self._workers, buffers, strict=True))

    def _send_all(self) -> None:
        for worker, message in self._sending:
            try:
                worker.send(message)
            except BrokenPipeError:
                self._raise_failure(worker, b"")

    def _receive_all(self) -> None:
        deadline = time.monotonic() + self._timeout if self._timeout else None
        for index, (worker, buffer) in enumerate(self._receiving):
            count = worker.receive(buffer)
            if count != len(buffer):
                self._receive_rest(worker, buffer, count or 0, deadline)
            if self._headers[index]:
                self._raise_failure(worker, bytes(buffer))

    def _receive_rest(
        self, worker: WorkerProcess, buffer: memoryview, received: int, deadline: float | None
    ) -> None:
        while received < len(buffer):
            self._wait(worker, deadline)
            count = worker.receive(buffer[received:])
            if count == 0:
                self._raise_failure(worker, bytes(buffer[:received]))
            received += count or 0

    def _receive_object(self, worker: WorkerProcess) -> Any:
        header = bytearray(Reply.HEADER)
        self._receive_rest(worker, memoryview(header), 0, None)
        payload = bytearray(int.from_bytes(header, sys.byteorder))
        self._receive_rest(worker, memoryview(payload), 0, None)
        value = pickle.loads(payload)
        if isinstance(value, WorkerError):
            raise value
        return value

    def _wait(self, worker: WorkerProcess, deadline: float | None) -> None:
        """Sleep until a worker has written something, raising if another one dies meanwhile."""
        remaining = None if deadline is None else 1000 * max(0.0, deadline - time.monotonic())
        self._poller.modify(worker.replies, select.POLLIN)
        events = dict(self._poller.poll(remaining))
        self._poller.modify(worker.replies, 0)
        if worker.replies in events:
            return
        for other in self._workers:
            if other.replies in events:
                self._raise_failure(other, b"")
        advice = "raise the timeout if it only is slow"
        reason = f"it did not answer within {self._timeout:g} seconds; {advice}."
        raise WorkerError(worker.index, self._steps, reason)

    def _raise_failure(self, worker: WorkerProcess, received: bytes) -> NoReturn:
        """Raise the error that a worker sent before it hung up, or say how its process ended."""
        message = received + worker.receive_last_words()
        header, payload = message[: Reply.HEADER], message[Reply.HEADER :]
        if payload and int.from_bytes(header, sys.byteorder) == len(payload):
            raise pickle.loads(payload)
        raise WorkerError(worker.index, self._steps, worker.explain_exit())

    def _abort(self) -> None:
        """Close quickly, since a failed worker may not be the only one that hangs."""
        details = self._finalizer.detach()
        if details is not None:
            _, _, (workers, lifeline, _), _ = details
            _shut_down(workers, lifeline, _GRACE_AFTER_FAILURE)


def _shut_down(workers: list[WorkerProcess], lifeline: int, grace: float) -> None:
    for worker in workers:
        worker.hang_up()
    deadline = time.monotonic() + grace
    for worker in workers:
        worker.wait(deadline - time.monotonic())
    for worker in workers:
        worker.kill()
    os.close(lifeline)
    left = [worker.index for worker in workers if not worker.wait(5.0)]
    if left:
        warnings.warn(f"Env workers {left} cannot be killed, the system is stuck.", stacklevel=2)
