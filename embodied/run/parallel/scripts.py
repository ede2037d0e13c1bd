"""The scripts of parallel training: everything on this machine, or one part of it."""

import functools
import socket
from collections.abc import Callable

from embodied.core.interfaces import Agent, Env, Stream
from embodied.core.logger import Logger
from embodied.core.replay.replay import Replay
from embodied.run.options import RunOptions
from embodied.run.parallel.learner import Addresses, run_learner
from embodied.run.parallel.log_server import serve_logger
from embodied.run.parallel.policy_server import run_env
from embodied.run.parallel.replay_server import serve_replay
from embodied.run.parallel.supervisor import AGENT, Supervisor


def parallel(
    make_agent: Callable[[], Agent],
    make_replay: Callable[[], Replay],
    make_env: Callable[[int], Env],
    make_stream: Callable[[Replay, str], Stream],
    make_logger: Callable[[], Logger],
    options: RunOptions,
) -> None:
    """Train with agent, replay, logger and each environment in a process of its own.

    With `options.remote_envs` or `options.remote_replay`, those are started elsewhere, by
    `parallel_envs` or `parallel_replay`. Arguments are those of `train`.

    Raises:
      PartFailedError: If a part fails; all others are ended.
      SystemExit: After a signal, with the exit code.
    """
    addresses = Addresses(
        *map(resolve, (options.actor_addr, options.replay_addr, options.logger_addr))
    )
    parts: dict[str, Callable[[], None]] = {}
    if not options.remote_replay:
        parts["replay"] = functools.partial(serve_replay, make_replay, options, addresses.replay)
    parts["logger"] = functools.partial(serve_logger, make_logger, options, addresses.logger)
    parts[AGENT] = functools.partial(run_learner, make_agent, make_stream, options, addresses)
    if not options.remote_envs:
        parts |= _envs(make_env, options, addresses.actor, range(options.envs))
    Supervisor(parts, options.logdir).run()


def parallel_envs(make_env: Callable[[int], Env], options: RunOptions, numbers: range) -> None:
    """Step environments for an agent on another machine until they are ended.

    Args:
      make_env: Makes the environment of an index.
      options: Options: those of `run`; `actor_addr` is where the agent is.
      numbers: Numbers of the environments among all of the run.

    Raises:
      PartFailedError: If an environment fails.
      SystemExit: After a signal, with the exit code.
    """
    parts = _envs(make_env, options, options.actor_addr, numbers)
    Supervisor(parts, options.logdir).run()


def parallel_replay(make_replay: Callable[[], Replay], options: RunOptions) -> None:
    """Serve the replay for an agent on another machine until it is ended.

    Args:
      make_replay: Makes the replay.
      options: Options: those of `run`; `replay_addr` is where it listens.
    """
    serve = functools.partial(serve_replay, make_replay, options, options.replay_addr)
    Supervisor({"replay": serve}, options.logdir).run()


def _envs(
    make_env: Callable[[int], Env], options: RunOptions, address: str, numbers: range
) -> dict[str, Callable[[], None]]:
    return {f"env{i}": functools.partial(run_env, make_env, options, address, i) for i in numbers}


def resolve(address: str) -> str:
    """Fill a free port into an address that ends in `{auto}`.

    Raises:
      ValueError: If it is not written as `host:port`.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not host or not (port.isdigit() or port == "{auto}"):
        raise ValueError(f"Got address '{address}', expected 'host:port' or 'host:{{auto}}'.")
    if port.isdigit():
        return address
    # Without reuse of addresses, which would give several programs the same port.
    with socket.socket() as probe:
        probe.bind(("", 0))
        return f"{host}:{probe.getsockname()[1]}"
