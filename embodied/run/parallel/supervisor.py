"""Starts the parts of a parallel run, watches over them and ends them."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import cloudpickle

from embodied.run.failures import PartFailedError, explained
from embodied.run.stop import StopRequested, StopSignals

AGENT = "agent"
MAX_RESTARTS = 3
SAVE_SECONDS = 600.0
END_SECONDS = 5.0


class Supervisor:
    """Runs functions in processes until the one named `agent` returns.

    An environment that was killed by a signal is started again, up to three times; any other end of
    a part ends all of them. When this process dies, so do the parts.
    """

    def __init__(self, parts: Mapping[str, Callable[[], None]], folder: str) -> None:
        """Take over the parts; nothing is started yet.

        Args:
          parts: Functions by name, sent to the processes with cloudpickle. Names that begin with
            `env` are those of environments.
          folder: The folder of the run, for the traceback of a part that has to end because of an
            environment or a stored file.
        """
        self._folder = folder
        self._context = multiprocessing.get_context("spawn")
        self._parts = {name: cloudpickle.dumps(function) for name, function in parts.items()}
        self._processes: dict[str, Any] = {}
        self._stop = StopSignals()
        self._restarts: dict[str, int] = {}

    def run(self) -> None:
        """Run until the end; no process is left then.

        Raises:
          PartFailedError: If a part fails.
          SystemExit: After a signal, with the exit code; the agent has saved before.
        """
        stop = self._stop
        with stop:
            try:
                for name in self._parts:
                    with stop.protected():
                        self._start(name)
                    stop.check()
                self._watch()
            except StopRequested:
                self._end_agent()
            finally:
                with stop.protected():
                    self._end_all()
        if stop.requested:
            raise SystemExit(stop.exit_code)

    def _start(self, name: str) -> None:
        process = self._context.Process(
            target=_main, args=(name, self._parts[name], self._folder), name=name
        )
        process.start()
        self._processes[name] = process

    def _watch(self) -> None:
        """Wait for the end of the agent, or of another part that should not end."""
        while True:
            sentinels = {process.sentinel: name for name, process in self._processes.items()}
            ended = [sentinels[x] for x in multiprocessing.connection.wait([*sentinels])]
            # If several have ended, the error of the agent may be a consequence of another's.
            for name in sorted(ended, key=lambda name: name == AGENT):
                process = self._processes[name]
                process.join()
                if name == AGENT and process.exitcode == 0:
                    return
                self._heal(name, process.exitcode)

    def _heal(self, name: str, code: int) -> None:
        how = f"exit code {code}" if code >= 0 else f"signal {-code} ({_signal_name(-code)})"
        restarts = self._restarts[name] = self._restarts.get(name, 0) + 1
        if not name.startswith("env") or code >= 0 or restarts > MAX_RESTARTS:
            raise PartFailedError(f"The part '{name}' has ended with {how}; see its error above.")
        print(f"The part '{name}' has ended with {how} and is started again.", flush=True)
        with self._stop.protected():
            self._start(name)
        self._stop.check()

    def _end_agent(self) -> None:
        """Ask the agent to save and wait until it has ended."""
        process = self._processes.get(AGENT)
        if process is not None and process.is_alive():
            process.terminate()
            deadline = time.monotonic() + SAVE_SECONDS
            while process.is_alive() and time.monotonic() < deadline:
                # What the agent saves needs the replay.
                multiprocessing.connection.wait([x.sentinel for x in self._processes.values()], 1)
                if any(not x.is_alive() for k, x in self._processes.items() if k[:3] != "env"):
                    process.join(END_SECONDS)
                    return

    def _end_all(self) -> None:
        for process in self._processes.values():
            if process.is_alive():
                process.terminate()
        deadline = time.monotonic() + END_SECONDS
        for process in self._processes.values():
            process.join(max(0.0, deadline - time.monotonic()))
        for process in self._processes.values():
            if process.is_alive():
                process.kill()
            process.join()
            process.close()


def _main(name: str, function: bytes, folder: str) -> None:
    """Body of a process."""
    # Ctrl-C is for the supervisor, which tells the agent.
    os.setpgid(0, 0)
    threading.Thread(target=_follow_parent, daemon=True, name="parent").start()
    if name != AGENT:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with explained(folder):
            cloudpickle.loads(function)()
    except SystemExit:
        raise
    except ConnectionError as error:  # Another part has ended, and has said why.
        sys.stderr.write(f"The part '{name}' has ended: {error}\n")
        sys.stderr.flush()
        os._exit(1)
    except BaseException:
        # Written at once, so that parts that fail together do not mix their lines.
        sys.stderr.write(f"The part '{name}' has failed.\n{traceback.format_exc()}")
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "this runs in a child"
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
