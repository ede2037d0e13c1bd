"""The process that acts and learns."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from embodied.core.interfaces import Agent
from embodied.run.banner import environments
from embodied.run.options import RunOptions
from embodied.run.parallel.log_server import RemoteEpisodes, RemoteLogger
from embodied.run.parallel.policy_server import PolicyServer
from embodied.run.parallel.replay_server import Exhausted, RemoteReplay
from embodied.run.run import Run
from embodied.run.session import session
from embodied.run.setup import MakeStream, resume, set_up


@dataclasses.dataclass(frozen=True)
class Addresses:
    """Where the servers of a run listen, as `host:port`."""

    actor: str
    replay: str
    logger: str


def run_learner(
    make_agent: Callable[[], Agent],
    make_stream: MakeStream,
    options: RunOptions,
    addresses: Addresses,
) -> None:
    """Act and learn until the budget is reached, then save, log and return.

    The replay and the logger are elsewhere; environments connect to the policy server.
    Checkpoints are those of `train`, so that each script continues what the other has begun.

    Args:
      make_agent: Builds and compiles the agent.
      make_stream: Makes the stream of batches of a replay for `train` or `report`.
      options: Options of the run.
      addresses: Of the servers.

    Raises:
      SystemExit: After a signal, with the exit code.
      ConnectionError: If the replay or the logger is lost.
    """
    make_replay: Any = functools.partial(RemoteReplay, addresses.replay, options.ipv6)
    make_logger: Any = functools.partial(RemoteLogger, addresses.logger, options.ipv6)
    with session() as here:
        run = set_up(
            here, options, make_agent, make_replay, make_stream, make_logger, RemoteEpisodes
        )
        resume(run)
        # Environments of a run in one process do not go on here.
        run.driver_state.load(None)
        inbox = _Inbox(run)
        with here.phase(f"Waiting for environments at {addresses.actor}"):
            server = PolicyServer(run.agent, options, addresses.actor, inbox.add, inbox.end)
            here.cleanup.callback(server.close)
            here.cleanup.callback(inbox.end)
        print(
            f"Budget:   {int(options.steps):,} agent steps, {environments(options.envs)}\n"
            f"Learning: {options.updates_per_step:.4g} updates per agent step",
            flush=True,
        )
        with run.to_the_end(), contextlib.closing(inbox):
            learn_from_others(run, server)


def learn_from_others(run: Run, server: PolicyServer) -> None:
    """The loop: make an update whenever the replay gives a batch, which steps have paid for.

    Args:
      run: The parts of the run.
      server: Acts in threads; its errors end the loop.
    """
    agent, replay, batches = run.agent, run.replay, run.batches["train"]
    while not run.over():
        server.check()
        try:
            batch = next(batches)
        except Exhausted:
            continue
        run.learner.carry, outs, metrics = agent.train(run.learner.carry, batch)
        if "replay" in outs:
            replay.update(outs["replay"])
        run.learner.add(metrics)
        run.count_update()
        if run.report_due():
            run.report()
        if run.log_due():
            run.log()
        if run.save_due():
            run.save()


class _Inbox:
    """Takes in the steps that the policy server collects: counts, stores and logs them."""

    def __init__(self, run: Run) -> None:
        self._run = run
        parts: tuple[Any, Any] = (run.replay, run.logger)
        self._replay, self._logger = parts
        self._closed = False

    def add(
        self, columns: dict[str, np.ndarray], rows: Sequence[dict[str, Any]], first: int
    ) -> None:
        """Take in a step of environments with consecutive numbers; too late ones are dropped.

        Args:
          columns: Values [N, ...] that all of them have.
          rows: Other values of each of them.
          first: Number of the first environment.
        """
        run, count = self._run, len(rows)
        if self._closed or run.step >= run.options.steps:
            self.end()
            return
        run.step.increment(count)
        run.rate.step(count)
        self._replay.add_rows(columns, range(first, first + count))
        # Only those of the first environment may be filmed, so the others do not send pictures.
        small = {key: value for key, value in columns.items() if value.ndim == 1}
        pictures = {k: v[0] for k, v in columns.items() if v.ndim == 4} if first == 0 else {}
        rows = [{**row, **(pictures if index == 0 else {})} for index, row in enumerate(rows)]
        self._logger.transitions(small, rows, first)

    def end(self) -> None:
        """Let waiting for a batch end, as no more steps will come."""
        self._replay.end()

    def close(self) -> None:
        """Drop steps that come later."""
        self._closed = True
