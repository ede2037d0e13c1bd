"""The scripts of parallel training: everything on this machine, or one part of it."""

import functools
from collections.abc import Callable
from typing import Any

from embodied.core.interfaces import Agent, Env, Stream
from embodied.core.logger import Logger
from embodied.core.replay.replay import Replay
from embodied.run.parallel.env import run_env
from embodied.run.parallel.learner import Addresses, run_learner
from embodied.run.parallel.log_server import serve_logger
from embodied.run.parallel.messages import resolve
from embodied.run.parallel.replay_server import serve_replay
from embodied.run.parallel.supervisor import AGENT, Supervisor


def parallel(
    make_agent: Callable[[], Agent],
    make_replay: Callable[[], Replay],
    make_env: Callable[[int], Env],
    make_stream: Callable[[Replay, str], Stream],
    make_logger: Callable[[], Logger],
    args: Any,
) -> None:
    """Train with agent, replay, logger and each environment in a process of its own.

    With `args.remote_envs` or `args.remote_replay`, those are started elsewhere, by `parallel_envs`
    or `parallel_replay`. Arguments are those of `train`.

    Raises:
      PartFailedError: If a part fails; all others are ended.
      SystemExit: After a signal, with the exit code.
    """
    addresses = Addresses(*map(resolve, (args.actor_addr, args.replay_addr, args.logger_addr)))
    parts: dict[str, Callable[[], None]] = {}
    if not args.remote_replay:
        parts["replay"] = functools.partial(serve_replay, make_replay, args, addresses.replay)
    parts["logger"] = functools.partial(serve_logger, make_logger, args, addresses.logger)
    parts[AGENT] = functools.partial(run_learner, make_agent, make_stream, args, addresses)
    if not args.remote_envs:
        parts |= _envs(make_env, args, addresses.actor, range(args.envs))
    Supervisor(parts).run()


def parallel_envs(make_env: Callable[[int], Env], args: Any, numbers: range) -> None:
    """Step environments for an agent on another machine until they are ended.

    Args:
      make_env: Makes the environment of an index.
      args: Options: those of `run`; `actor_addr` is where the agent is.
      numbers: Numbers of the environments among all of the run.

    Raises:
      PartFailedError: If an environment fails.
      SystemExit: After a signal, with the exit code.
    """
    Supervisor(_envs(make_env, args, args.actor_addr, numbers)).run()


def parallel_replay(make_replay: Callable[[], Replay], args: Any) -> None:
    """Serve the replay for an agent on another machine until it is ended.

    Args:
      make_replay: Makes the replay.
      args: Options: those of `run`; `replay_addr` is where it listens.
    """
    Supervisor(
        {"replay": functools.partial(serve_replay, make_replay, args, args.replay_addr)}
    ).run()


def _envs(
    make_env: Callable[[int], Env], args: Any, address: str, numbers: range
) -> dict[str, Callable[[], None]]:
    return {f"env{i}": functools.partial(run_env, make_env, args, address, i) for i in numbers}
