"""The replay as a process of its own."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from embodied.core.replay.limiters import SamplesPerInsert
from embodied.core.replay.replay import Replay
from embodied.run.options import RunOptions
from embodied.run.parallel import rpc

WAIT_SECONDS = 0.5
IN_FLIGHT = 2


def serve_replay(make_replay: Callable[[], Replay], options: RunOptions, address: str) -> None:
    """Serve a replay until the process is ended; steps and batches wait for each other.

    The trained steps per inserted step are held at `options.train_ratio`. Neither side may be ahead
    by more than two batches, or what one insert of all environments pays for. What was stored
    before the start of the process does not count, so that waiting is not paid back.

    Args:
      make_replay: Makes the replay.
      options: Options of the run.
      address: Where to listen.

    Raises:
      Exception: What a call has raised.
    """
    replay = make_replay()
    needed = options.batch_steps
    limiter = SamplesPerInsert(
        options.train_ratio,
        tolerance=2 * max(needed, options.train_ratio * options.envs),
        minsize=needed + (replay.length - 1) * options.envs,
        message_seconds=60,
    )
    offered = _Offered(replay, limiter, needed)
    functions: dict[str, Callable[..., Any]] = {
        "add": offered.add,
        "update": replay.update,
        "stats": replay.stats,
        "save": replay.save,
        "load": offered.load,
        "load_floats_as": replay.load_floats_as,
        "spaces": offered.describe,
    }
    offers: rpc.Offers = {name: (function, 1) for name, function in functions.items()}
    offers = {**offers, "sample": (offered.sample, 2)}
    rpc.serve(address, options.ipv6, offers)


class _Offered:
    """The functions that differ from those of the replay."""

    def __init__(self, replay: Replay, limiter: SamplesPerInsert, needed: int) -> None:
        self._replay, self._limiter, self._needed = replay, limiter, needed

    def add(self, columns: Mapping[str, np.ndarray], workers: Sequence[int]) -> int:
        """Store a step of each worker; return the number of items."""
        self._limiter.insert(len(workers))
        for row, worker in enumerate(workers):
            self._replay.add({key: values[row] for key, values in columns.items()}, worker)
        return len(self._replay)

    def sample(self, batch: int, mode: str) -> Mapping[str, np.ndarray] | None:
        """Draw a batch; None if it is not due within a moment."""
        if not len(self._replay):
            time.sleep(WAIT_SECONDS)
            return None
        if mode == "train" and not self._limiter.sample(self._needed, WAIT_SECONDS):
            return None
        return self._replay.sample(batch, mode)

    def load(self, state: Any) -> int:
        """Restore what `save` returned; return the number of items."""
        self._replay.load(state)
        stored = len(self._replay)
        # Learning goes on at once where there is enough to learn from.
        self._limiter.minsize = max(1, self._limiter.minsize - stored)
        return stored

    def describe(self) -> tuple[int, int | None]:
        """Steps per item and capacity."""
        return self._replay.length, self._replay.capacity


class Exhausted(Exception):
    """No more batches will be due, because collecting has ended."""


class RemoteReplay:
    """A replay on a server, for the process of the agent.

    Attributes:
      length: Steps per item.
      capacity: Largest number of items.
    """

    schema = None

    def __init__(self, address: str, ipv6: bool) -> None:
        """Wait for the server.

        Args:
          address: Where it listens.
          ipv6: Whether the address is one of IPv6.
        """
        # Inserts and batches wait for each other, so they do not share a connection.
        self._inserts, self._calls = rpc.RpcClient(address, ipv6), rpc.RpcClient(address, ipv6)
        self.length, self.capacity = self._calls("spaces")
        self._items = 0
        self._pending: list[Callable[[], int]] = []
        self._over = False

    def __len__(self) -> int:
        """Number of items at the last insert."""
        return self._items

    def add(self, transition: Mapping[str, Any], worker: int) -> None:
        """Store a step of one worker; see `add_rows`."""
        self.add_rows({key: np.asarray(value)[None] for key, value in transition.items()}, [worker])

    def add_rows(self, columns: Mapping[str, np.ndarray], workers: Sequence[int]) -> None:
        """Store a step of several workers; waits while two such calls are under way.

        Raises:
          ConnectionError: If the connection is lost.
        """
        self._pending.append(self._inserts.start("add", dict(columns), list(workers)))
        while len(self._pending) > IN_FLIGHT:
            self._items = self._pending.pop(0)()

    def sample(self, batch: int, mode: str = "train") -> dict[str, np.ndarray]:
        """Wait for a batch.

        Raises:
          Exhausted: If the replay was closed or collecting has ended.
          ConnectionError: If the connection is lost.
        """
        while True:
            result: dict[str, np.ndarray] | None = self._calls("sample", batch, mode)
            if result is not None:
                return result
            if self._over:
                raise Exhausted

    def update(self, data: Mapping[str, np.ndarray]) -> None:
        """Write latents and priorities back."""
        self._calls("update", dict(data))

    def stats(self) -> dict[str, float]:
        """Return the metrics of the replay."""
        stats: dict[str, float] = self._calls("stats")
        return stats

    def take(self) -> tuple[Any, Callable[[], None]]:
        """Write chunks on the server; return the rest of the state, and nothing more to do."""
        return self._calls("save"), lambda: None

    def load_floats_as(self, dtypes: Mapping[str, str]) -> None:
        """Let `load` cast floats; see `Replay.load_floats_as`."""
        self._calls("load_floats_as", dict(dtypes))

    def load(self, state: Any) -> None:
        """Restore what `take` of this class or of a replay returned."""
        self._items = self._calls("load", state)

    def end(self) -> None:
        """Let waiting for a batch end, as no more steps will come."""
        self._over = True

    def close(self) -> None:
        """Close the connections."""
        self.end()
        self._inserts.close()
        self._calls.close()
