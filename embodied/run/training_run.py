"""The parts of a training run, put together."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from embodied.core.batched_env import env_constructors
from embodied.core.checkpoint import Checkpoint
from embodied.core.counter import Counter
from embodied.core.driver import Driver
from embodied.core.interfaces import Agent, Batch, Carry, Env, Stream
from embodied.core.logger import Logger
from embodied.core.replay.replay import Replay
from embodied.core.timer import Timer
from embodied.core.usage import Usage
from embodied.run.banner import replay_requirements, start_banner
from embodied.run.episodes import EpisodeLogger
from embodied.run.heartbeat import Heartbeat
from embodied.run.learner import Learner
from embodied.run.overlap import Background, background_tools
from embodied.run.progress import Progress, Rate
from embodied.run.replicas import join
from embodied.run.saved_parts import DriverState, ReplayState
from embodied.run.stepping import use_processes
from embodied.run.stop import StopSignals

NOTHING = contextlib.nullcontext()


@dataclasses.dataclass(frozen=True)
class Factories:
    """Functions that make the parts of a run; see `train` for what each takes and returns."""

    make_agent: Callable[[], Agent]
    make_replay: Callable[[], Replay]
    make_env: Callable[[int], Env]
    make_stream: Callable[[Replay, str], Stream]
    make_logger: Callable[[], Logger]


class TrainingRun:
    """Environments, agent, replay, logger and checkpoint of one run, and what it does with them.

    Attributes:
      step: Counter of agent steps.
      learner: Makes updates and reports.
      progress: Position in the budget.
      checkpoint: Where the run is saved.
      stop: Requests to stop.
      replicas: Processes that train together with this one.
    """

    def __init__(
        self,
        factories: Factories,
        args: Any,
        stop: StopSignals,
        heartbeat: Heartbeat,
        cleanup: contextlib.ExitStack,
    ) -> None:
        """Set everything up, continuing from the checkpoint if there is one.

        The agent comes first, so that it is compiled before environments start, and the
        checkpoint before them, too, so that what does not fit is found early.

        Args:
          factories: Make the parts.
          args: Options of the run.
          stop: Requests to stop.
          heartbeat: Prints the phases.
          cleanup: Closes the parts, the last one first.
        """
        self._args = args
        self.stop = stop
        self._heartbeat, self._timer = heartbeat, Timer()
        with heartbeat.phase("Meeting the other processes") if args.replicas > 1 else NOTHING:
            self.replicas = join(args)
            cleanup.callback(self.replicas.close)
            stop.deferred = self.replicas.several
        with heartbeat.phase("Building the agent"):
            self._agent = factories.make_agent()
            # The first step that they make together does not wait for slow compilers.
            self.replicas.meet()
        with heartbeat.phase("Opening the replay"):
            self._replay = factories.make_replay()
            self._logger = factories.make_logger()
            cleanup.callback(self._logger.close)
            self._logger.add("params/summary", self._agent.summary())
            self.step: Counter = self._logger.step
            self.progress = Progress(int(args.steps), self._updates_per_step(), args.duration)
            self.checkpoint = self._make_checkpoint()
            cleanup.callback(self.checkpoint.wait)
            streams = self._make_streams(factories.make_stream, cleanup)
            # Closed before the streams, so that none of them goes on waiting for items.
            cleanup.callback(self._replay.close)
            self._add_parts(factories, cleanup)
            self._make_learner(streams, cleanup)
            self._episodes = self._make_episodes()
            self.checkpoint.register("episodes", self._episodes)
            self._driver_state = DriverState()
            self.checkpoint.register("driver", self._driver_state)
        self._load()
        self._usage = Usage(**args.usage)
        self._rate = Rate()
        self._start_environments(factories, cleanup)
        self._rate.result()  # Starting them does not count.
        self._left_driver = time.perf_counter()
        self._print_banner()

    def _add_parts(self, factories: Factories, cleanup: contextlib.ExitStack) -> None:
        """Make and register what a kind of run has besides; the checkpoint is loaded later."""

    def _make_episodes(self) -> EpisodeLogger:
        return EpisodeLogger(self._logger, self._args.picture_every)

    def _start_environments(self, factories: Factories, cleanup: contextlib.ExitStack) -> None:
        with self._heartbeat.phase(f"Starting {self._args.envs} environments"):
            self._driver = self._make_driver(factories.make_env)
            cleanup.callback(self._driver.close)
            self._driver_state.attach(self._driver)

    def collect(self, steps: int) -> None:
        """Step the environments for at least this many transitions, learning meanwhile.

        Raises:
          StopRequested: If the run has to stop; what was collected until then is whole.
        """
        if not self._background:
            self.learner.settle(int(self.step))
        with self._heartbeat.activity("waiting for the environments"), self.stop.interruptible():
            self._driver(self._policy, steps=steps)

    def settle(self) -> None:
        """Wait for learning in the background, so that everything belongs together."""
        if self._background:
            with self._heartbeat.activity("waiting for the learner"):
                self._background.settle()

    def report(self) -> None:
        """Log what the agent believes."""
        self.settle()
        self._logger.add(self.learner.report())

    def log(self) -> None:
        """Write all metrics, and print how far the run has come."""
        self.settle()
        step = int(self.step)
        rate = self._rate.result()
        with self._timer.section("log"):
            self._logger.add(self.learner.metrics(step))
            self._logger.add(self._episodes.stats(), prefix="epstats")
            self._logger.add(self._replay.stats(), prefix="replay")
            self._logger.add(self._usage.stats(), prefix="usage")
            self._logger.add("fps/policy", rate)
            summary = self._timer.stats()["summary"]
            if self._args.get("timer", True):
                self._logger.add("timer", summary)
            self._logger.write()
        print(
            self.progress.line(step, self.learner.updates, rate, self.learner.waiting), flush=True
        )

    def save(self) -> None:
        """Start to write a checkpoint."""
        self.settle()
        with self._timer.section("save"), self._heartbeat.activity("taking a checkpoint"):
            self.checkpoint.save(int(self.step))
            self._saved = self._position

    def finish(self) -> None:
        """Save and log a last time, and say what was reached.

        Raises:
          RuntimeError: If the checkpoint cannot be written.
        """
        self.settle()
        with self._heartbeat.activity("writing the last checkpoint"):
            # Also tells whether an earlier save at the same position has failed.
            if not self.checkpoint.wait() or self._saved != self._position:
                self.save()
            self.log()
            complete = self.checkpoint.wait()
        if not complete:
            raise RuntimeError(
                f"The last checkpoint, at step {int(self.step)}, could not be written to "
                f"{self.checkpoint.directory}; see the warning above. The previous one is in use."
            )
        self._print_result()

    @property
    def _position(self) -> tuple[int, int]:
        return int(self.step), self.learner.updates

    def _policy(self, carry: Carry, obs: Batch) -> tuple[Carry, Batch, Batch]:
        self._timer.record("env", time.perf_counter() - self._left_driver)
        # Not left here for a signal, as the observations would be lost.
        with self._busy("choosing actions", "policy"):
            result = self._agent.policy(carry, obs, mode="train")
        self._left_driver = time.perf_counter()
        return result

    def _on_transition(self, transition: Mapping[str, np.ndarray], worker: int) -> None:
        """Count, store and learn from a transition, in this order (spec row 6.1)."""
        with self._busy("storing a transition", "transition"):
            self.step.increment()
            self._replay.add(transition, worker)
            self._rate.step()
            self._episodes(transition, worker)
            (self._background or self.learner)(int(self.step))
        self._left_driver = time.perf_counter()
        self.stop.check()

    @contextlib.contextmanager
    def _busy(self, activity: str, section: str) -> Iterator[None]:
        """What the body does is named, measured, and not interrupted."""
        with (
            self.stop.protected(),
            self._heartbeat.activity(activity),
            self._timer.section(section),
        ):
            yield

    def _updates_per_step(self) -> float:
        args = self._args
        return args.train_ratio / (args.batch_size * args.batch_length)

    def _make_checkpoint(self) -> Checkpoint:
        args = self._args
        folder = Path(args.logdir) / "ckpt"
        checkpoint = Checkpoint(folder, args.keep, args.keep_every, config=args.flat)
        checkpoint.register("step", self.step)
        checkpoint.register("agent", self._agent)
        checkpoint.register("replay", ReplayState(self._replay))
        return checkpoint

    def _make_streams(
        self, make_stream: Callable[[Replay, str], Stream], cleanup: contextlib.ExitStack
    ) -> tuple[Stream, Stream]:
        streams = []
        for mode in ("train", "report"):
            stream = self._agent.stream(make_stream(self._replay, mode))
            cleanup.callback(stream.close)
            self.checkpoint.register(f"{mode}_stream", stream)
            streams.append(stream)
        return streams[0], streams[1]

    def _make_driver(self, make_env: Callable[[int], Env]) -> Driver:
        args = self._args
        constructors = env_constructors(make_env, args.envs)
        processes = use_processes(
            args.parallel, make_env, args.envs, args.env_timeout, args.get("env_restarts", 0)
        )
        driver = Driver(constructors, processes, args.env_timeout)
        driver.on_step(self._on_transition)
        driver.reset(self._agent.init_policy)
        return driver

    def _make_learner(self, streams: tuple[Stream, Stream], cleanup: contextlib.ExitStack) -> None:
        args, timer = self._args, self._timer
        # The order of updates and steps is part of what a seed determines.
        ahead = 0 if args.deterministic else args.overlap
        tools = background_tools(self.stop, timer) if ahead else (self.stop, self._heartbeat, timer)
        self.learner = Learner(self._agent, self._replay, streams, args, self.progress, tools)
        self.learner.share_clock(self.replicas)
        self.checkpoint.register("learner", self.learner)
        self._background = Background(self.learner, ahead) if ahead else None
        if self._background:
            cleanup.callback(self._background.close)

    def _load(self) -> None:
        """Continue from the last checkpoint, else start from another run's agent, else from new."""
        args = self._args
        if args.from_checkpoint and not self.checkpoint.exists():
            with self._heartbeat.phase(f"Loading the agent from {args.from_checkpoint}"):
                _, states = self.checkpoint.read(args.from_checkpoint, ["agent"])
                self._agent.load(states["agent"], args.from_checkpoint_regex or None)
        with self._heartbeat.phase("Looking for a checkpoint"):
            resumed = self.checkpoint.load_or_save(int(self.step))
        self._saved = self._position
        if resumed:
            print(f"Continuing at {self._describe_position()}.", flush=True)
        else:
            print("Starting a new run.", flush=True)

    def _print_banner(self) -> None:
        spaces = {**self._driver.obs_space, **self._driver.act_space, **self._agent.ext_space}
        replay, args = self._replay, self._args
        needs = replay_requirements(spaces, replay.length, replay.capacity, args.envs)
        banner = start_banner(args, needs, self._logger.multiplier, self.learner.needed)
        print(banner, flush=True)

    def _print_result(self) -> None:
        print(
            f"Ended at {self._describe_position()}, {self._episodes.finished:,} episodes finished "
            f"since the start.\nEverything is in {self._args.logdir}; the same command with this "
            "--logdir and a larger --run.steps continues.",
            flush=True,
        )

    def _describe_position(self) -> str:
        step, updates = self._position
        frames = step * self._logger.multiplier
        return f"step {step:,} ({frames:,} frames) with {updates:,} updates"
