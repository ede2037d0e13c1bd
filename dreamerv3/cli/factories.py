"""Builds the parts of an experiment from a config.

Environments are made in worker processes that have no JAX, so this module imports it only where an
agent is made.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dreamerv3.cli import agents, stored_steps
from dreamerv3.cli.writers import make_outputs
from embodied.core.config import Config, ConfigError
from embodied.core.device_program import DeviceProgram
from embodied.core.interfaces import Agent, Env, Stream
from embodied.core.logger import Logger
from embodied.core.random_agent import RandomAgent
from embodied.core.replay.prioritized import Prioritized
from embodied.core.replay.replay import Replay
from embodied.core.replay.selectors import Mixture, Recency, Selector, Uniform
from embodied.core.schedule import Counter
from embodied.core.space import Space
from embodied.core.streams import Consec, Stateless
from embodied.core.wrappers import (
    CheckSpaces,
    ClipAction,
    NormalizeAction,
    RestartOnException,
    UnifyDtypes,
)
from embodied.envs import registry
from embodied.envs.errors import EnvError
from embodied.run.options import EvalOptions, RunOptions
from embodied.run.seed_run import seed_folders

if TYPE_CHECKING:
    from embodied.jax.pure_env import PureEnv

#: Options that both the agent and the training loop read.
SHARED = (
    "logdir", "seed", "replica", "replicas", "batch_size", "batch_length", "report_length",
    "replay_context", "consec_train", "consec_report",
)  # fmt: skip
#: Option of an environment: in every how many-th episode pictures are logged.
FILMED = "log_image_every"
#: Seconds of making an environment from which no further one is made for a trial.
SLOW_CONSTRUCTION = 8.0


def make_env(config: Config, index: int, **overrides: Any) -> Env:
    """Make and wrap one environment of the task.

    Args:
      config: The whole config; the suite's part of `config.env` goes to the constructor.
      index: Number of the environment within this process, which gives it a seed of its own.
      **overrides: Arguments of the constructor that win over the config.

    Raises:
      EnvError: If the task cannot be made.
    """
    options = dict(config.env.get(registry.suite_of(config.task), {}))
    if index and FILMED in options:
        options[FILMED] = 0  # Drawing takes time, and the pictures of one are enough.
    options |= overrides
    if config.jax.coordinator_address:
        index += config.replica * (config.run.envs + 1 + config.run.eval_envs)

    def construct() -> Env:
        return registry.make(config.task, options, seed=config.seed, index=index)

    if not config.run.env_restarts:
        return wrap_env(construct())
    # Invalid observations are checked inside, so that they lead to a restart, too.
    env = RestartOnException(
        lambda: CheckSpaces(construct()),
        maxfails=config.run.env_restarts,
        wait=config.run.env_restart_wait,
    )
    return wrap_env(env)


@dataclasses.dataclass
class Construction:
    """How many seconds it took to make one environment; 0 before that is known."""

    seconds: float = 0.0


class EnvMaker:
    """Makes environments of a task by their index, or all at once where the task allows it."""

    def __init__(
        self, config: Config, evaluation: bool = False, construction: Construction | None = None
    ) -> None:
        """Prepare to make environments.

        Args:
          config: The whole config.
          evaluation: Whether they are those of `make_eval_env`, which are made one by one.
          construction: Shared by those that make environments of the same task.
        """
        self._config = config
        self._evaluation = evaluation
        self._construction = construction or Construction()

    def for_evaluation(self) -> EnvMaker:
        """Return what makes environments of the same task for evaluation."""
        return EnvMaker(self._config, True, self._construction)

    def spaces(self) -> tuple[dict[str, Space], dict[str, Space]]:
        """Look up the spaces, see `make_spaces`, and print what is surprising about them."""
        start = time.monotonic()
        spaces = make_spaces(self._config, functools.partial(print, flush=True))
        self._construction.seconds = time.monotonic() - start
        return spaces

    def __call__(self, index: int) -> Env:
        """Make one environment, see `make_env`."""
        return (make_eval_env if self._evaluation else make_env)(self._config, index)

    @property
    def make_batch(self) -> Callable[[int], Env] | None:
        """Makes a `BatchedEnv` from the number of environments; None where there is none."""
        config = self._config
        options = dict(config.env.get(registry.suite_of(config.task), {}))
        if self._evaluation or not registry.is_batched(config.task, options):
            return None
        return lambda envs: wrap_env(
            registry.make_batch(config.task, options, envs, seed=config.seed)
        )

    @property
    def needs_processes(self) -> bool:
        """Whether only one of these environments should be in a process, without a trial.

        That is so where making one takes long, and several together would take even longer.
        """
        if self._construction.seconds > SLOW_CONSTRUCTION:
            return True
        return registry.needs_processes(self._config.task)


def check_env(config: Config) -> None:
    """Check the task and the options of its constructor, which is imported but not called.

    The script `ondevice` makes one, as only that tells whether it can be computed with JAX.

    Raises:
      EnvError: If the environment cannot be made like this.
    """
    if config.script == "ondevice":
        from embodied.envs.pure.check import traced_faults

        if faults := traced_faults(make_pure_env(config)):
            kind, words = next(iter(faults.items()))
            raise EnvError(
                f"{config.task} cannot be compiled, {kind}: {words}; see docs/device.md, and "
                "dreamerv3 check-env for all that is wrong."
            )
        return
    registry.check(config.task, config.env.get(registry.suite_of(config.task), {}))


def make_pure_env(config: Config) -> PureEnv:
    """Make the environment of the script `ondevice`.

    Raises:
      EnvError: If the task cannot be made, or is no environment in JAX.
    """
    from embodied.envs.pure import make_pure

    return make_pure(config.task, config.env.get(registry.suite_of(config.task), {}))


def wrap_env(env: Env) -> Env:
    """Let continuous actions range from -1 to 1 and unify dtypes.

    Clipping is outermost, so that the replay holds what the policy sampled and the environment sees
    only what it allows.
    """
    continuous = [key for key, space in env.act_space.items() if not space.discrete]
    for key in continuous:
        env = NormalizeAction(env, key)
    env = UnifyDtypes(env)
    for key in continuous:
        env = ClipAction(env, key)
    return env


def make_eval_env(config: Config, index: int) -> Env:
    """Make an environment for evaluation, whose seed no training environment has.

    With `eval.video`, the first one draws pictures for the video if it can and shows none anyway.
    """
    options = config.env.get(registry.suite_of(config.task), {})
    film = {FILMED: 1} if config.eval.video and index == 0 and FILMED in options else {}
    return make_env(config, config.run.envs + 1 + index, **film)


def make_spaces(
    config: Config, say: Callable[[str], None] | None = None
) -> tuple[dict[str, Space], dict[str, Space]]:
    """Look up the spaces of the task as an agent sees them: no `log/` keys, no `reset`.

    Args:
      config: The whole config.
      say: Takes sentences about what is surprising in the translation of a foreign environment.

    Raises:
      EnvError: If the task cannot be made.
    """
    # One beyond those that are stepped: the first one may open a window to draw log images.
    env = make_env(config, config.run.envs)
    try:
        obs_space = {k: v for k, v in env.obs_space.items() if not k.startswith("log/")}
        act_space = {k: v for k, v in env.act_space.items() if k != "reset"}
        notes = getattr(env, "notes", ())
        if say is not None:
            for note in notes:
                say(note)
    finally:
        env.close()
    return obs_space, act_space


def make_agent(config: Config, policy_batch: int = 0, envs: EnvMaker | None = None) -> Agent:
    """Make the agent for the spaces of the task, compiled and ready to act and learn.

    Args:
      config: The whole config.
      policy_batch: Environments that act together, by default all.
      envs: What will make the environments.

    Raises:
      EnvError: If the task cannot be made.
      ConfigError: If there are stored steps of other keys, kinds or shapes.
      PlatformError: If the hardware that was asked for is not there.
    """
    obs_space, act_space = (envs or EnvMaker(config)).spaces()
    check = functools.partial(stored_steps.check_stored, config, obs_space, act_space)
    if config.random_agent:
        check({})
        return RandomAgent(obs_space, act_space, config.seed)
    agent_class = agents.load(config.agent_class)
    options = agent_config(config).update(policy_batch=policy_batch or config.run.envs)
    if agent_class.acts_itself:
        agent: Agent = agent_class.make(obs_space, act_space, options)
        check(agent.ext_space)
        return agent
    from embodied.jax.jax_agent import JaxAgent
    from embodied.jax.platform import prepare_process

    def build(*args: Any) -> Any:
        model = agent_class.make(*args)
        check(model.ext_space)  # Before anything is compiled.
        return model

    platform = prepare_process(config.jax, learning=True)
    return JaxAgent(build, obs_space, act_space, options, platform)


def make_acting_agent(
    config: Config,
    spaces: tuple[dict[str, Space], dict[str, Space]] | None = None,
    envs: EnvMaker | None = None,
) -> Agent:
    """Make an agent that acts with loaded parameters, or at random, but cannot learn.

    At random, it stores zeros for the latents that an agent which learns from it will want.

    Args:
      config: The whole config.
      spaces: Those of the task, if they are known.
      envs: What will make the environments.

    Raises:
      EnvError: If the task cannot be made.
      PlatformError: If the hardware that was asked for is not there.
    """
    obs_space, act_space = spaces or (envs or EnvMaker(config)).spaces()
    agent_class, options = agents.load(config.agent_class), agent_config(config)
    agent: Agent
    if agent_class.acts_itself:
        agent = agent_class.make(obs_space, act_space, options)
    else:
        from embodied.jax.inference_agent import InferenceAgent
        from embodied.jax.platform import prepare_process

        platform = prepare_process(config.jax)
        agent = InferenceAgent(agent_class.make, obs_space, act_space, options, platform)
    if config.script == "collect":
        stored_steps.check_stored(config, obs_space, act_space, agent.ext_space)
    if config.random_agent:
        return RandomAgent(obs_space, act_space, config.seed, agent.ext_space)
    return agent


def agent_config(config: Config) -> Config:
    """Gather the options that an agent reads: its own, and those that every agent is given."""
    return Config({**config.get("agent", {}), **given_options(config)})


def given_options(config: Config) -> dict[str, Any]:
    """Options that every agent is given besides its own, which cannot have these names."""
    return {
        **{key: config[key] for key in SHARED},
        "priosignal": config.replay.priosignal if config.replay.fracs.priority else "none",
        "jax": config.jax,
        "policy_batch": config.run.envs,
        "prefetch": config.replay.prefetch,
        "deterministic": config.run.deterministic,
        "nonfinite": config.run.nonfinite,
    }


def agent_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Shapes of all state of a model by path, without computing anything.

    Returns:
      Nothing for an agent that is not compiled from a model.

    Raises:
      EnvError: If the task cannot be made.
    """
    agent_class = agents.load(config.agent_class)
    if agent_class.acts_itself:
        return {}
    from embodied.jax.params import param_shapes

    return param_shapes(agent_class.make, *make_spaces(config), agent_config(config))


def make_replay(config: Config, folder: str, mode: str = "train") -> Replay:
    """Make the replay, which holds windows of all training chunks and their context.

    Args:
      config: The whole config.
      folder: Where chunks are stored, below the logdir.
      mode: `train`, or `eval` for a tenth of the capacity.
    """
    capacity = int(config.replay.size / (10 if mode == "eval" else 1))
    return Replay(
        length=config.consec_train * config.batch_length + config.replay_context,
        capacity=capacity,
        directory=pathlib.Path(config.logdir) / folder,
        chunksize=config.replay.chunksize,
        online=config.replay.online,
        selector=make_selector(config),
        seed=data_seed(config),
        name=folder,
        continue_streams=True,  # A resumed run begins with a reset of every environment.
    )


def data_seed(config: Config) -> int:
    """Seed of what this process draws from its own data."""
    return int(config.seed) + 7919 * int(config.replica)


def make_selector(config: Config) -> Selector:
    """Make what draws the windows: uniform, or a mixture by `replay.fracs`."""
    seed, options = data_seed(config), config.replay
    if options.fracs.uniform == 1:
        return Uniform(seed)
    prio = {**options.prio, "initial": float(options.prio.initial)}
    selectors = {
        "uniform": Uniform(seed),
        "priority": Prioritized(**prio, seed=seed),
        "recency": Recency(options.recexp, seed),
    }
    return Mixture(selectors, options.fracs, seed)


def make_stream(config: Config, replay: Replay, mode: str) -> Stream:
    """Make an endless stream of batches that are cut into consecutive chunks.

    Args:
      config: The whole config.
      replay: Where sequences are drawn from.
      mode: `train`, `report` or `eval`; only `train` uses up whole sequences and the online queue.
    """
    train = mode == "train"
    return Consec(
        Stateless(functools.partial(replay.sample, config.batch_size // config.replicas, mode)),
        length=config.batch_length if train else config.report_length,
        consec=config.consec_train if train else config.consec_report,
        prefix=config.replay_context,
        strict=train,
    )


def make_program(config: Config) -> DeviceProgram:
    """Make the program of the script `ondevice`, which is not compiled yet.

    Raises:
      EnvError: If the task cannot be made, or is no environment in JAX.
      ConfigError: If the devices lack memory, or cannot share the seeds evenly.
      PlatformError: If the hardware that was asked for is not there.
    """
    from embodied.jax.ondevice import Evaluation, OnDevice, Sizes
    from embodied.jax.platform import prepare_process
    from embodied.jax.random_model import RandomModel

    env = make_pure_env(config)
    sizes = Sizes(
        seeds=[seed.seed for seed in seed_configs(config)],
        worlds=config.run.envs,
        capacity=int(config.replay.size),
        steps=config.run.steps,
        online=config.replay.online,
        evaluation=Evaluation(
            config.run.eval_eps, config.eval.max_length, config.eval.mode == "deterministic"
        ),
    )
    platform = prepare_process(config.jax, learning=True)
    options = agent_config(config)
    if config.random_agent:
        return OnDevice(RandomModel, env, options, platform, sizes)
    agent_class = agents.load(config.agent_class)
    if agent_class.acts_itself:
        raise ConfigError(
            f"Got agent_class {config.agent_class}, expected a model, see docs/agents.md: an "
            "embodied.Agent cannot be compiled into the program of the script ondevice."
        )
    return OnDevice(agent_class.make, env, options, platform, sizes)


def make_loggers(config: Config) -> list[Logger]:
    """Make the logger of each seed; the terminal shows the metrics of the first one."""
    return [
        make_logger(seed, terminal=not index) for index, seed in enumerate(seed_configs(config))
    ]


def seed_configs(config: Config) -> list[Config]:
    """The config of each of the seeds that train together, as if it was a run of its own."""
    count = config.ondevice.seeds
    return [
        config.update({"seed": config.seed + index, "logdir": folder, "ondevice.seeds": 1})
        for index, folder in enumerate(seed_folders(config.logdir, count))
    ]


def make_options(config: Config) -> RunOptions:
    """Gather the options of a run script: those of `run` and the shared ones."""
    return RunOptions.pick(
        config,
        config.run,
        usage=dict(config.run.usage),
        # What a process does of the updates that several make together.
        batch_size=config.batch_size // config.replicas,
        coordinator_address=config.jax.coordinator_address,
        eval=EvalOptions(**config.eval),
        fps=config.logger.fps,
        replay_strict=config.replay.strict,
        timer=config.logger.timer,
    )


def make_logger(config: Config, terminal: bool = True) -> Logger:
    """Make the logger; steps are counted in environment frames, agent steps times action repeat."""
    suite = config.env.get(registry.suite_of(config.task), {})
    return Logger(Counter(), make_outputs(config, terminal), suite.get("repeat", 1))
