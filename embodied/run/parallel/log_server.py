"""The logger as a process of its own."""

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from embodied.core.logger import Logger
from embodied.core.schedule import Counter
from embodied.run.episodes import EpisodeLogger
from embodied.run.options import RunOptions
from embodied.run.parallel import rpc

IN_FLIGHT = 8


def serve_logger(make_logger: Callable[[], Logger], options: RunOptions, address: str) -> None:
    """Serve a logger and the statistics of episodes until the process is ended.

    Args:
      make_logger: Makes the logger.
      options: Options of the run.
      address: Where to listen.

    Raises:
      Exception: What a call has raised.
    """
    offered = _Offered(make_logger(), options)
    multiplier = offered.logger.multiplier
    # One function for most, so that everything is done in the order in which it was asked for.
    offers: rpc.Offers = {"do": (offered.do, 1), "multiplier": (lambda: multiplier, 1)}
    rpc.serve(address, options.ipv6, offers)


class _Offered:
    def __init__(self, logger: Logger, options: RunOptions) -> None:
        self.logger = logger
        self._episodes = EpisodeLogger(logger, options.picture_every, options.episode_timeout)

    def do(self, step: int, task: str, *args: Any) -> Any:
        """Run a task at a step."""
        self.logger.step.load(step)
        tasks: Mapping[str, Callable[..., Any]] = {
            "add": self.logger.add,
            "write": self.logger.write,
            "stats": self._episodes.stats,
            "finished": lambda: self._episodes.finished,
            "transitions": self._add_transitions,
        }
        return tasks[task](*args)

    def _add_transitions(
        self, columns: Mapping[str, np.ndarray], rows: Sequence[Mapping[str, Any]], first: int
    ) -> None:
        for index, row in enumerate(rows):
            shared = {key: values[index] for key, values in columns.items()}
            self._episodes.add({**shared, **row}, first + index)


class RemoteLogger:
    """A logger on a server, for the process of the agent.

    Attributes:
      step: The counter of agent steps.
      multiplier: Environment frames per agent step.
    """

    def __init__(self, address: str, ipv6: bool) -> None:
        """Wait for the server.

        Args:
          address: Where it listens.
          ipv6: Whether the address is one of IPv6.
        """
        self.step = Counter()
        self._client = rpc.RpcClient(address, ipv6)
        self.multiplier: int = self._client("multiplier")
        self._lock = threading.Lock()
        self._pending: list[Callable[[], Any]] = []

    def add(
        self, data: Mapping[str, Any] | str, value: Any = None, prefix: str | None = None
    ) -> None:
        """Buffer metrics at the current step; see `Logger.add`."""
        self._start("add", data if isinstance(data, str) else dict(data), value, prefix)

    def write(self) -> None:
        """Hand what is buffered to the outputs."""
        self._start("write")

    def follow(self, describe: Callable[[], str]) -> None:
        """Do nothing: the outputs are in another process, which cannot call the function."""

    def transitions(
        self, columns: Mapping[str, np.ndarray], rows: Sequence[Mapping[str, Any]], first: int
    ) -> None:
        """Take in a step of several environments with consecutive numbers.

        Args:
          columns: Values [N, ...] that all of them have.
          rows: Other values of each of them.
          first: Number of the first environment.
        """
        self._start("transitions", dict(columns), [dict(row) for row in rows], first)

    def ask(self, task: str) -> Any:
        """Ask for statistics of episodes: `stats` or `finished`."""
        return self._client("do", int(self.step), task)

    def close(self) -> None:
        """Write what is buffered and close the connection."""
        with contextlib.suppress(ConnectionError, rpc.RemoteError):
            self._client("do", int(self.step), "write")
        self._client.close()

    def _start(self, task: str, *args: Any) -> None:
        with self._lock:
            self._pending.append(self._client.start("do", int(self.step), task, *args))
            while len(self._pending) > IN_FLIGHT:
                self._pending.pop(0)()


class RemoteEpisodes:
    """Statistics of the episodes that a server collects; unfinished ones are not saved."""

    def __init__(self, logger: RemoteLogger) -> None:
        """Take over the connection of a logger."""
        self._logger = logger

    def stats(self) -> dict[str, np.ndarray]:
        """Return the statistics of the episodes that ended since the last call."""
        stats: dict[str, np.ndarray] = self._logger.ask("stats")
        return stats

    @property
    def finished(self) -> int:
        """Number of episodes that have ended."""
        finished: int = self._logger.ask("finished")
        return finished

    def save(self) -> dict[str, Any]:
        """Return the state of an `EpisodeLogger` without episodes."""
        return {"episodes": {}, "started": {}}

    def load(self, state: Any) -> None:
        """Ignore the state, as every environment begins an episode."""
