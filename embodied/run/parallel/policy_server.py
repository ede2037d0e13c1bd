"""Environments that step on their own, and the server that chooses their actions in batches."""

import contextlib
import functools
import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from embodied.core.driver import mask_actions
from embodied.core.interfaces import Agent, Carry, Env
from embodied.core.space import Space
from embodied.core.stepping.checked_env import CheckedEnv
from embodied.run.options import RunOptions
from embodied.run.parallel.messages import Connection, Server, connect

#: Gets columns [N, ...], values that single environments have, and the number of the first one.
OnStep = Callable[[dict[str, np.ndarray], list[dict[str, Any]], int], None]


class PolicyServer:
    """Chooses the actions of environments in groups with consecutive numbers.

    A group acts when each of its environments has sent an observation. While one group waits for
    its environments, the others act. The carry of a group stays with it; an environment that
    connects anew begins an episode, which clears its part of the carry.
    """

    def __init__(
        self,
        agent: Agent,
        options: RunOptions,
        address: str,
        on_step: OnStep,
        on_failure: Callable[[], None],
    ) -> None:
        """Listen and start to act.

        Args:
          agent: Chooses the actions.
          options: Options of the run: `envs`, `actor_batch`, `actor_threads`, `ipv6`.
          address: Where to listen.
          on_step: Called with the transitions of a group, by one thread at a time.
          on_failure: Called when it cannot go on; `check` says why.
        """
        size = group_size(options.envs, options.actor_batch)
        self._groups = [
            _Group(agent, first, min(size, options.envs - first))
            for first in range(0, options.envs, size)
        ]
        self._size, self._envs = size, options.envs
        self._on_step, self._on_failure = on_step, on_failure
        self._stepping = threading.Lock()
        self._act_space: dict[str, Space] = {}
        self._ready: queue.Queue[_Group | None] = queue.Queue()
        self._closed = threading.Event()
        self._error: BaseException | None = None
        self._receiving = threading.Lock()
        self._server = Server(address, options.ipv6)
        self._threads = [
            threading.Thread(target=target, name="policy", daemon=True)
            for target in [self._receive, *[self._act] * max(1, options.actor_threads)]
        ]
        for thread in self._threads:
            thread.start()

    def check(self) -> None:
        """Raise what has gone wrong in a thread."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Stop acting; environments wait for an answer that does not come."""
        self._closed.set()
        for _ in self._threads:
            self._ready.put(None)
        for thread in self._threads:
            thread.join(5)
        self._server.close()

    def _receive(self) -> None:
        while not self._closed.is_set():
            try:
                with contextlib.suppress(TimeoutError):
                    self._take_in(*self._server.receive())
            except Exception as error:
                self._fail(error)

    def _take_in(self, sender: Connection, message: Any) -> None:
        index, obs, start = message
        if not 0 <= index < self._envs:
            expected = f"expected a number below run.envs={self._envs}"
            raise ValueError(f"Got an environment with number {index}, {expected}.")
        if start is not None:
            self._act_space = {key: Space(x.dtype, x.shape) for key, x in start.items()}
        group = self._groups[index // self._size]
        with self._receiving:
            if group.put(index, sender, obs):
                self._ready.put(group)

    def _act(self) -> None:
        while not self._closed.is_set():
            group = self._ready.get()
            if group is None:
                return
            try:
                # Another thread may still be busy with the last step of the same group.
                with group.acting:
                    self._step(group)
            except Exception as error:
                self._fail(error)

    def _step(self, group: "_Group") -> None:
        with self._receiving:
            arrived = group.take()
        columns, rows, actions = group.act([obs for _, obs in arrived], self._act_space)
        for index, (sender, _) in enumerate(arrived):
            # An environment that is gone comes back and begins an episode.
            with contextlib.suppress(ConnectionError):
                sender.send({key: value[index] for key, value in actions.items()})
        with self._stepping:
            if not self._closed.is_set():
                self._on_step(columns, rows, group.first)

    def _fail(self, error: BaseException) -> None:
        if not self._closed.is_set():
            self._error = error
            self._closed.set()
            self._on_failure()


class _Group:
    """Environments that act together.

    Attributes:
      first: Number of the first environment.
      acting: Held during a step of the group.
    """

    def __init__(self, agent: Agent, first: int, size: int) -> None:
        self.first = first
        self._agent, self._size = agent, size
        self.acting = threading.Lock()
        self._carry: Carry = agent.init_policy(size)
        self._arrived: dict[int, tuple[Connection, Mapping[str, Any]]] = {}

    def put(self, index: int, sender: Connection, obs: Mapping[str, Any]) -> bool:
        """Take in an observation; return whether the group is complete.

        An environment sends again only where it has connected anew; the newer observation counts.
        """
        complete = len(self._arrived) == self._size
        self._arrived[index] = (sender, obs)
        return not complete and len(self._arrived) == self._size

    def take(self) -> list[tuple[Connection, Mapping[str, Any]]]:
        """Return the senders and observations in order, and wait for the next ones."""
        arrived, self._arrived = self._arrived, {}
        return [arrived[index] for index in sorted(arrived)]

    def act(
        self, arrived: list[Mapping[str, Any]], act_space: Mapping[str, Space]
    ) -> tuple[dict[str, np.ndarray], list[dict[str, Any]], dict[str, np.ndarray]]:
        """Choose actions; return the transitions, and the actions with resets.

        Transitions are columns [N, ...] and what only single environments have.
        """
        shared = [key for key in arrived[0] if not key.startswith("log/")]
        obs = {key: np.stack([values[key] for values in arrived]) for key in shared}
        rows = [{k: v for k, v in values.items() if k not in shared} for values in arrived]
        self._carry, actions, outs = self._agent.policy(self._carry, dict(obs), mode="train")
        is_last = obs["is_last"]
        actions = mask_actions(actions, act_space, is_last)
        columns = {**obs, **actions, **outs}
        return columns, rows, {**actions, "reset": is_last}


def group_size(envs: int, actor_batch: int) -> int:
    """Number of environments that act together; by default half of them."""
    return min(envs, actor_batch) if actor_batch > 0 else -(-envs // 2)


def run_env(make_env: Callable[[int], Env], options: RunOptions, address: str, index: int) -> None:
    """Step an environment until the process is ended.

    When the connection to the policy server is lost, it waits for a new one and begins a new
    episode.

    Args:
      make_env: Makes the environment of an index.
      options: Options of the run.
      address: Of the policy server.
      index: Number of the environment.

    Raises:
      WorkerError: If the environment fails.
    """
    env = CheckedEnv(index, functools.partial(make_env, index))
    try:
        while True:
            connection = connect(address, options.ipv6)
            try:
                _step(env, index, connection)
            except ConnectionError:
                connection.close()
    finally:
        env.close()


def _step(env: CheckedEnv, index: int, connection: Connection) -> None:
    """Step from the start of an episode until the connection is lost."""
    action: dict[str, Any] = {k: np.zeros(x.shape, x.dtype) for k, x in env.act_space.items()}
    action["reset"] = np.bool_(True)
    # The first action goes with its observation, as the server takes the spaces from there.
    connection.send([index, dict(env.step(action)), action])
    while True:
        connection.send([index, dict(env.step(connection.receive())), None])
