"""The process that acts and learns."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from embodied.core.interfaces import Agent, Stream
from embodied.core.replay.replay import Replay
from embodied.run.parallel.actor import Actor
from embodied.run.parallel.log_server import RemoteEpisodes, RemoteLogger
from embodied.run.parallel.replay_server import Exhausted, RemoteReplay
from embodied.run.training_loop import run_to_end
from embodied.run.training_run import Factories, TrainingRun


@dataclasses.dataclass(frozen=True)
class Addresses:
    """Where the servers of a run listen, as `host:port`."""

    actor: str
    replay: str
    logger: str


def run_agent(
    make_agent: Callable[[], Agent],
    make_stream: Callable[[Replay, str], Stream],
    args: Any,
    addresses: Addresses,
) -> None:
    """Act and learn until the budget is reached, then save, log and return.

    The replay and the logger are elsewhere; environments connect to the actor. Checkpoints are
    those of `train`, so that each script continues what the other has begun.

    Args:
      make_agent: Builds and compiles the agent.
      make_stream: Makes the stream of batches of a replay for `train` or `report`.
      args: Options of the run.
      addresses: Of the servers.

    Raises:
      SystemExit: After a signal, with the exit code.
      ConnectionError: If the replay or the logger is lost.
    """
    replay: Any = functools.partial(RemoteReplay, addresses.replay, args.ipv6)
    logger: Any = functools.partial(RemoteLogger, addresses.logger, args.ipv6)
    factories = Factories(make_agent, replay, _no_env, make_stream, logger)
    run_to_end(functools.partial(ParallelRun, factories, args, addresses.actor), args)


class ParallelRun(TrainingRun):
    """A training run whose environments come to it by themselves."""

    def __init__(self, factories: Factories, args: Any, address: str, *tools: Any) -> None:
        """Set everything up; see `TrainingRun`.

        Args:
          factories: Make the parts.
          args: Options of the run.
          address: Where the actor listens.
          *tools: See `TrainingRun`.
        """
        self._address = address
        self._ended = False
        super().__init__(factories, args, *tools)

    def collect(self, steps: int) -> None:
        """Make an update, as soon as the collected steps pay for it."""
        self._actor.check()
        try:
            self.learner.update(int(self.step))
        except Exhausted:
            self._actor.check()

    def finish(self) -> None:
        """Save and log a last time; steps that come later are dropped."""
        self._ended = True
        super().finish()

    def _start_environments(self, factories: Factories, cleanup: contextlib.ExitStack) -> None:
        # Environments of a run in one process do not go on here.
        self._driver_state.load(None)
        parts: tuple[Any, Any] = (self._replay, self._logger)
        self._remote_replay, self._remote_logger = parts
        with self._heartbeat.phase(f"Waiting for environments at {self._address}"):
            end: Callable[[], None] = self._remote_replay.end
            self._actor = Actor(self._agent, self._args, self._address, self._on_transitions, end)
            cleanup.callback(self._actor.close)
            cleanup.callback(end)

    def _make_episodes(self) -> Any:
        logger: Any = self._logger
        return RemoteEpisodes(logger)

    def _on_transitions(
        self, columns: dict[str, np.ndarray], rows: list[dict[str, Any]], first: int
    ) -> None:
        """Count, store and log the transitions of a group."""
        count = len(rows)
        if self._ended or self.step >= self._args.steps:
            self._remote_replay.end()
            return
        self.step.increment(count)
        self._rate.step(count)
        self._remote_replay.add_rows(columns, range(first, first + count))
        # Only those of the first environment may be filmed, so the others do not send pictures.
        small = {key: value for key, value in columns.items() if value.ndim == 1}
        pictures = {k: v[0] for k, v in columns.items() if v.ndim == 4} if first == 0 else {}
        rows = [{**row, **(pictures if index == 0 else {})} for index, row in enumerate(rows)]
        self._remote_logger.transitions(small, rows, first)

    def _print_banner(self) -> None:
        updates = self._args.train_ratio / self.learner.needed
        print(
            f"Budget:   {int(self._args.steps):,} agent steps, {self._args.envs} environments\n"
            f"Learning: {updates:.4g} updates per agent step",
            flush=True,
        )


def _no_env(index: int) -> Any:
    raise RuntimeError("Environments are made by other processes.")
