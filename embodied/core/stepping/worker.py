"""Program of one environment worker process; the driver's side is `processes.WorkerProcess`."""

import atexit
import contextlib
import faulthandler
import os
import pickle
import signal
import sys
import threading
import traceback
from typing import Any

from embodied.core.stepping.checked_env import CheckedEnv, WorkerError, explain
from embodied.core.stepping.messages import ActionRow, Reply, write_all


def main(requests: int, replies: int, lifeline: int) -> None:
    """Construct the environment that stdin describes and step it until the driver hangs up.

    Stdin holds the pickled worker index, then the pickled constructor. The first reply is the
    pickled triple of spaces, later ones are in the format of `Reply`; any may be a pickled
    `WorkerError`.

    Args:
        requests: File descriptor from which packed actions are read; its end ends the worker.
        replies: File descriptor to which replies are written.
        lifeline: File descriptor that the driver's process keeps open as long as it lives.
    """
    _detach(requests, replies, lifeline)
    env: CheckedEnv | None = None
    index = pickle.load(sys.stdin.buffer)
    try:
        env = CheckedEnv(index, lambda: pickle.load(sys.stdin.buffer)())
        _send_object(replies, (env.obs_space, env.log_space, env.act_space))
        _serve(env, requests, replies)
    except WorkerError as error:
        _send_object(replies, error)
    except BrokenPipeError:
        # The driver hung up while this worker was stepping, which is one way of closing.
        pass
    except BaseException as error:
        # Ctrl-C does not reach this process, so that a KeyboardInterrupt is the environment's own.
        failure = WorkerError(index, 0, explain(error)) if env is None else env.failure(error)
        _send_object(replies, failure)
    finally:
        # Before the environment, whose cleaning up can take long, so that the driver notices.
        os.close(replies)
        if env is not None:
            _close(env)


def _detach(requests: int, replies: int, lifeline: int) -> None:
    """Make the life of the worker, and of what its environment starts, depend on the driver."""
    faulthandler.enable()
    # Registered first and therefore called last.
    atexit.register(_exit_group)
    # Ctrl-C and the SIGTERM of a job scheduler reach every process of a run, but only the driver's
    # knows what to do. A handler, unlike SIG_IGN, is not inherited by what the environment starts.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ignore_signal)

    def detach_fork() -> None:
        atexit.unregister(_exit_group)
        for descriptor in (requests, replies, lifeline):
            with contextlib.suppress(OSError):
                os.close(descriptor)

    # Processes that the environment forks must not keep the pipes open when this one has died, nor
    # end this one when they exit.
    os.register_at_fork(after_in_child=detach_fork)
    threading.Thread(target=_end_with_driver, args=(lifeline,), daemon=True).start()


def _end_with_driver(lifeline: int) -> None:
    """Kill the process group once the driver's process is gone, even if the environment hangs."""
    os.read(lifeline, 1)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _exit_group() -> None:
    """Exit together with everything that the environment started."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _ignore_signal(number: int, frame: Any) -> None:
    """Do nothing."""


def _serve(env: CheckedEnv, requests: int, replies: int) -> None:
    action = ActionRow(env.act_space)
    reply = Reply(env.obs_space, env.log_space).packer()
    while _receive(requests, action.buffer):
        reply.pack(env.step(action.unpack()))
        write_all(replies, reply.buffer)


def _receive(descriptor: int, buffer: memoryview) -> bool:
    """Fill the buffer, or return False if the other side hung up."""
    received = 0
    while received < len(buffer):
        count = os.readv(descriptor, [buffer[received:]])
        if not count:
            return False
        received += count
    return True


def _send_object(descriptor: int, value: Any) -> None:
    payload = pickle.dumps(value)
    # The driver may have hung up already, and then nobody is there to be told.
    with contextlib.suppress(BrokenPipeError):
        write_all(descriptor, len(payload).to_bytes(Reply.HEADER, sys.byteorder) + payload)


def _close(env: CheckedEnv) -> None:
    try:
        env.close()
    except Exception:
        # Nobody listens any more and no result depends on it, but it should be seen.
        traceback.print_exc()
