"""What the option `script` can be: which loop runs, and with which parts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

from dreamerv3.cli import factories
from embodied.core.config import Config
from embodied.run.session import PROGRAM, Caller


def start(config: Config, caller: Caller = PROGRAM) -> None:
    """Run the script that the config names, to its end.

    Args:
      config: The whole config.
      caller: What starts it; another than the program can only start `CALLABLE` scripts.
    """
    if config.script in CALLABLE:
        CALLABLE[config.script](config, caller)
    else:
        PROCESSES[config.script](config)


def train(config: Config, caller: Caller) -> None:
    """Collect experience and learn from it."""
    from embodied.run.train import train

    envs = factories.EnvMaker(config)
    train(partial(factories.make_agent, config, envs=envs), *_shared(config, envs), caller=caller)


def collect(config: Config, caller: Caller) -> None:
    """Fill a replay folder with the steps of a saved agent, or at random."""
    from embodied.run.collect import collect

    envs = factories.EnvMaker(config)
    make_agent = partial(factories.make_acting_agent, config, envs=envs)
    collect(make_agent, *_shared(config, envs), caller=caller)


def offline(config: Config, caller: Caller) -> None:
    """Train from the replay of another run."""
    from embodied.run.offline import offline

    config = config.update({"jax.enable_policy": False})
    offline(
        partial(factories.make_agent, config),
        partial(factories.make_replay, config, "replay"),
        partial(factories.make_stream, config),
        partial(factories.make_logger, config),
        factories.make_options(config),
        caller,
    )


def train_eval(config: Config, caller: Caller) -> None:
    """Train, and evaluate in separate environments."""
    from embodied.run.train_eval import train_eval

    envs = factories.EnvMaker(config)
    train_eval(
        partial(factories.make_agent, config, envs=envs),
        (
            partial(factories.make_replay, config, "replay"),
            partial(factories.make_replay, config, "eval_replay", "eval"),
        ),
        (envs, envs.for_evaluation()),
        partial(factories.make_stream, config),
        partial(factories.make_logger, config),
        factories.make_options(config),
        caller,
    )


def eval_only(config: Config, caller: Caller) -> None:
    """Evaluate a saved agent."""
    from embodied.run.eval_only import eval_only

    envs = factories.EnvMaker(config, evaluation=True)
    eval_only(
        partial(factories.make_acting_agent, config, envs=envs),
        envs,
        factories.make_options(config),
        caller,
    )


def ondevice(config: Config, caller: Caller) -> None:
    """Collect experience and learn from it, in one compiled program."""
    from dreamerv3.cli.run_folder import claimed
    from embodied.run.ondevice import ondevice

    learning = config.update({"run.train_ratio": 0}) if config.random_agent else config
    with contextlib.ExitStack() as held:
        for seed in factories.seed_configs(config) if config.ondevice.seeds > 1 else ():
            held.enter_context(claimed(seed))
        ondevice(
            partial(factories.make_program, config),
            partial(factories.make_loggers, config),
            factories.make_options(learning),
            config.ondevice.chunk,
            config.ondevice.evaluate,
            caller,
        )


def parallel(config: Config) -> None:
    """Train with agent, replay, logger and environments in processes of their own."""
    from embodied.run.parallel.policy_server import group_size
    from embodied.run.parallel.scripts import parallel

    # Batches are drawn ahead, and the policy is compiled for the environments that act together.
    config = config.update({"run.deterministic": False})
    group = group_size(config.run.envs, config.run.actor_batch)
    shared = _shared(config, factories.EnvMaker(config))
    parallel(partial(factories.make_agent, config, group), *shared)


def parallel_env(config: Config) -> None:
    """Step the environment whose number is `replica` for an agent elsewhere."""
    from embodied.run.parallel.scripts import parallel_envs

    numbers = range(config.replica, config.replica + 1)
    parallel_envs(partial(factories.make_env, config), factories.make_options(config), numbers)


def parallel_envs(config: Config) -> None:
    """Step this replica's share of the environments for an agent elsewhere."""
    from embodied.run.parallel.scripts import parallel_envs

    numbers = range(config.run.envs)[config.replica :: config.replicas]
    parallel_envs(partial(factories.make_env, config), factories.make_options(config), numbers)


def parallel_replay(config: Config) -> None:
    """Serve the replay for an agent elsewhere."""
    from embodied.run.parallel.scripts import parallel_replay

    make_replay = partial(factories.make_replay, config, "replay")
    parallel_replay(make_replay, factories.make_options(config))


def _shared(config: Config, envs: factories.EnvMaker) -> tuple[Any, Any, Any, Any, Any]:
    """Replay, environments, streams, logger and options, the same in several scripts."""
    return (
        partial(factories.make_replay, config, "replay"),
        envs,
        partial(factories.make_stream, config),
        partial(factories.make_logger, config),
        factories.make_options(config),
    )


#: Scripts that run in the process that starts them.
CALLABLE: dict[str, Callable[[Config, Caller], None]] = {
    "train": train,
    "train_eval": train_eval,
    "eval_only": eval_only,
    "collect": collect,
    "offline": offline,
    "ondevice": ondevice,
}
#: Those of them that tell callbacks what happens.
TELLING = ("train", "train_eval", "collect", "offline")
#: Scripts that are a process, or start several.
PROCESSES: dict[str, Callable[[Config], None]] = {
    "parallel": parallel,
    "parallel_env": parallel_env,
    "parallel_envs": parallel_envs,
    "parallel_replay": parallel_replay,
}
SCRIPTS = (*CALLABLE, *PROCESSES)
