"""Sets a run up: the parts in the order in which they are made."""

from collections.abc import Callable
from typing import Any

from embodied.core.checkpoint import Deferred
from embodied.core.interfaces import Agent, Env, State, Stream
from embodied.core.logger import Logger
from embodied.core.replay.replay import Replay
from embodied.core.space import Space
from embodied.core.streams import close_all
from embodied.run.banner import environments, replay_requirements, start_banner
from embodied.run.episodes import EpisodeLogger
from embodied.run.observed_run import ObservedRun
from embodied.run.options import RunOptions
from embodied.run.replicas import Replicas, join
from embodied.run.run import Run
from embodied.run.session import Session
from embodied.run.stepping import start_driver

#: What the driver adds to an action, or sampling to a batch, and no step stores.
UNSTORED = ("reset", "consec", "stepid")

MakeAgent = Callable[[], Agent]
MakeReplay = Callable[[], Replay]
MakeEnv = Callable[[int], Env]
MakeStream = Callable[[Replay, str], Stream]
MakeLogger = Callable[[], Logger]


def set_up(
    session: Session,
    options: RunOptions,
    make_agent: MakeAgent,
    make_replay: MakeReplay,
    make_stream: MakeStream,
    make_logger: MakeLogger,
    make_episodes: Callable[[Any], Any] | None = None,
) -> Run:
    """Make what a run saves: agent, replay, logger, streams. Nothing is loaded or written yet.

    The agent comes first, so that it is compiled before environments start, and everything that a
    checkpoint has to fit before them, too, so that what does not fit is found early.

    Args:
      session: Closes the parts, prints the phases.
      options: Options of the run.
      make_agent: Builds and compiles the agent.
      make_replay: Makes the replay.
      make_stream: Makes the stream of batches of a replay for `train` or `report`.
      make_logger: Makes the logger, whose step counts agent steps.
      make_episodes: Makes what collects the transitions of episodes for a logger.
    """
    replicas = _meet(session, options)
    with session.phase("Building the agent", "compiling takes minutes at the first start"):
        agent = make_agent()
        # The first step that processes make together does not wait for slow compilers.
        replicas.meet()
    with session.phase("Opening the replay"):
        replay, logger = make_replay(), make_logger()
        session.cleanup.callback(logger.close)
        logger.add("params/summary", agent.summary())
        if make_episodes is None:
            episodes = EpisodeLogger(logger, options.picture_every)
        else:
            episodes = make_episodes(logger)
        make_run = ObservedRun if session.callbacks else Run
        run = make_run(session, options, replicas, agent, replay, logger, episodes)
        session.cleanup.callback(run.checkpoint.wait)
        run.checkpoint.register("step", run.step)
        run.checkpoint.register("agent", agent)
        add_replay(run, "replay", replay)
        session.cleanup.callback(close_all, run.streams)
        for mode in ("train", "report"):
            add_stream(run, mode, make_stream(replay, mode))
        # Closed before the streams, so that none of them goes on waiting for items.
        session.cleanup.callback(replay.close)
        run.checkpoint.register("learner", run.learner)
        run.checkpoint.register("episodes", episodes)
        run.checkpoint.register("driver", run.driver_state)
    return run


def add_replay(run: Run, name: str, replay: Replay) -> None:
    """Save a replay with the run; what it loads is cast to what the agent computes in."""
    spaces = stored_spaces(run.agent)
    replay.load_floats_as({k: str(x.dtype) for k, x in spaces.items() if not x.discrete})
    run.checkpoint.register(name, ReplayState(replay))


def stored_spaces(agent: Agent) -> dict[str, Space]:
    """Spaces of what an agent reads of a stored step, as far as it tells them."""
    spaces: dict[str, Space] = {}
    for name in ("obs_space", "act_space", "ext_space"):
        spaces |= getattr(agent, name, {})
    return {key: space for key, space in spaces.items() if key not in UNSTORED}


def add_stream(run: Run, mode: str, source: Stream) -> None:
    """Let the agent prepare the batches of a stream, which is saved and closed with the run.

    Args:
      run: The run.
      mode: Name of its batches.
      source: Batches of a replay.
    """
    stream = run.agent.stream(source)
    run.streams.append(stream)
    run.checkpoint.register(f"{mode}_stream", stream)
    needed = f"{run.schedule.needed:,} are needed"
    supply = lambda: f"the replay has {len(run.replay):,} items, {needed}"  # noqa: E731
    run.batches[mode] = run.session.waited(stream, supply)


def resume(run: Run) -> None:
    """Continue from the last checkpoint, else start from another run's agent, else from new.

    A new run writes its first checkpoint here, so that a folder that cannot be written to is found
    before anything is learned.
    """
    source = run.options.from_checkpoint
    if source and not run.checkpoint.exists():
        with run.session.phase(f"Loading the agent from {source}"):
            _, states = run.checkpoint.read(source, ["agent"])
            run.agent.load(states["agent"], run.options.from_checkpoint_regex or None)
    with run.session.phase("Looking for a checkpoint"):
        resumed = run.checkpoint.load_or_save(int(run.step))
    run.saved = run.position
    if resumed:
        print(f"Continuing at {run.describe_position()}.", flush=True)
    else:
        print("Starting a new run.", flush=True)


def start_environments(run: Run, make_env: MakeEnv) -> None:
    """Start the environments, and say what the run will take.

    Args:
      run: The run; gets the driver.
      make_env: Makes the environment of an index; sent to worker processes.

    Raises:
      WorkerError: If an environment cannot be made.
      ConfigError: If the replay needs more than there is, and `replay_strict` is set.
    """
    options, agent, replay = run.options, run.agent, run.replay
    with run.session.phase(f"Starting {environments(options.envs)}"):
        run.driver = start_driver(make_env, options, options.envs, run.session)
        run.driver.reset(agent.init_policy)
        run.driver_state.attach(run.driver)
    run.rate.result()  # Starting them does not count.
    spaces = {**run.driver.obs_space, **run.driver.act_space, **agent.ext_space}
    needs = replay_requirements(spaces, replay.length, replay.capacity, options.envs)
    print(start_banner(options, needs, run.logger.multiplier), flush=True)


class ReplayState:
    """The replay in a checkpoint: its files are large and therefore written beside the run."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay

    def save(self) -> Deferred:
        """Return the state, and what writes the chunks."""
        return Deferred(*self._replay.take())

    def load(self, state: State) -> None:
        """Continue with the saved items."""
        self._replay.load(state)


def _meet(session: Session, options: RunOptions) -> Replicas:
    """Connect the processes that train together."""
    if options.replicas <= 1:
        return Replicas()
    with session.phase("Meeting the other processes"):
        replicas = join(options)
        session.cleanup.callback(replicas.close)
    # All of them end at the same update.
    session.stop.deferred = True
    return replicas
