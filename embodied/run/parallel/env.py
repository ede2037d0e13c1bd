"""Environments that step on their own and ask an actor for their actions."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from embodied.core.checked_env import CheckedEnv
from embodied.core.interfaces import Env
from embodied.run.parallel.transport import Connection, connect

#: Seconds after which an environment that finds no actor says so.
PATIENCE = 30.0


def run_env(make_env: Callable[[int], Env], args: Any, address: str, index: int) -> None:
    """Step an environment until the process is ended.

    When the connection to the actor is lost, it waits for a new one and begins a new episode.

    Args:
      make_env: Makes the environment of an index.
      args: Options of the run.
      address: Of the actor.
      index: Number of the environment.

    Raises:
      WorkerError: If the environment fails.
    """
    env = CheckedEnv(index, functools.partial(make_env, index))
    try:
        while True:
            connection = _connect(address, args, index)
            try:
                _step(env, index, connection)
            except ConnectionError:
                connection.close()
    finally:
        env.close()


def _connect(address: str, args: Any, index: int) -> Connection:
    try:
        return connect(address, args.ipv6, PATIENCE)
    except ConnectionError as error:
        print(f"Environment {index} waits for the actor. {error}", flush=True)
        return connect(address, args.ipv6)


def _step(env: CheckedEnv, index: int, connection: Connection) -> None:
    """Step from the start of an episode until the connection is lost."""
    action: dict[str, Any] = {k: np.zeros(x.shape, x.dtype) for k, x in env.act_space.items()}
    action["reset"] = np.bool_(True)
    while True:
        connection.send([index, dict(env.step(action))])
        action = connection.receive()
