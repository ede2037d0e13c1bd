"""Environments that step on their own and ask an actor for their actions."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from embodied.core.interfaces import Env
from embodied.core.stepping.checked_env import CheckedEnv
from embodied.run.parallel.messages import Connection


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
            connection = Connection(address, args.ipv6)
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
    while True:
        connection.send([index, dict(env.step(action))])
        action = connection.receive()
