"""A training run: its parts, and what a loop does with them."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path

from embodied.core.checkpoint import Checkpoint
from embodied.core.driver import Driver, Transition
from embodied.core.interfaces import Agent, Batch, State, Stream
from embodied.core.logger import Logger
from embodied.core.replay.replay import Replay
from embodied.core.schedule import Clock, Counter, UpdateSchedule
from embodied.core.usage import Usage
from embodied.run.background import Background
from embodied.run.episodes import EpisodeLogger
from embodied.run.learner import Learner
from embodied.run.options import RunOptions
from embodied.run.progress import Progress, Rate
from embodied.run.replicas import Replicas
from embodied.run.session import Session
from embodied.run.stop import StopRequested

#: Transitions between two looks at the clocks; environments finish the step that they are in.
CLOCK_STEPS = 10


class Run:
    """The parts of a run, and what its loop does with them.

    Attributes:
      options: Options of the run.
      session: What stands beside the loop.
      agent: Acts, learns and reports.
      replay: Holds what was collected.
      logger: Takes metrics, at steps of environment frames.
      step: Counter of agent steps.
      schedule: Says how many updates are due.
      learner: What learning keeps between two updates.
      episodes: Collects transitions into episodes.
      batches: Iterators over the batches of each mode, `train` and `report` among them.
      streams: The streams behind them, which are closed with the run.
      checkpoint: Where the run is saved.
      progress: Position in the budget.
      rate: Meter of agent steps per second.
      driver: Steps the environments, once they are started.
      driver_state: Where the driver is, or was before the run was continued.
      saved: Position of the last checkpoint.
    """

    driver: Driver
    saved: tuple[int, int]

    def __init__(
        self,
        session: Session,
        options: RunOptions,
        replicas: Replicas,
        agent: Agent,
        replay: Replay,
        logger: Logger,
        episodes: EpisodeLogger,
    ) -> None:
        """Put the parts together; `embodied.run.setup.set_up` makes them."""
        self.options, self.session = options, session
        self.agent = session.watched(
            agent,
            policy=("choosing actions", "policy"),
            train=("making an update", "train"),
            report=("making a report", "report"),
        )
        self.replay = session.watched(
            replay, add=("storing a transition", "add"), update=("writing back", "write_back")
        )
        self.logger, self.episodes = logger, episodes
        self.step: Counter = logger.step
        self.schedule = UpdateSchedule(options.updates_per_step, options.batch_steps, replay)
        self.learner = Learner(self.agent, self.schedule, options)
        self.batches: dict[str, Iterator[Batch]] = {}
        self.streams: list[Stream] = []
        ckpt = Path(options.logdir) / "ckpt"
        self.checkpoint = Checkpoint(ckpt, options.keep, options.keep_every, config=options.flat)
        self.progress = Progress(int(options.steps), options.updates_per_step, options.duration)
        self.rate = Rate()
        self._usage = Usage(**options.usage)
        self.driver_state = DriverState()
        self._background: Background | None = None
        self._since_clocks = 0
        self._look_at_clocks = True
        self._share_clocks(replicas)

    def in_background(self, learn: Callable[[int], None]) -> Callable[[int], None]:
        """Let a function learn in a thread, if the options say so; else return it as it is.

        The order of updates and steps is part of what a seed determines, so a deterministic run
        takes turns.
        """
        ahead = 0 if self.options.deterministic else self.options.overlap
        if not ahead:
            return learn
        self._background = Background(learn, ahead)
        self.session.cleanup.callback(self._background.close)
        return self._background

    @contextlib.contextmanager
    def to_the_end(self) -> Iterator[None]:
        """Surround the loop: when it is over or has to stop, save and log a last time.

        Raises:
          RuntimeError: If the checkpoint cannot be written.
        """
        with self.session.loop(self.options.logdir):
            self.logger.follow(self._where)
            with contextlib.suppress(StopRequested):
                yield
            self.finish()

    def transitions(self) -> Iterator[tuple[Transition, int]]:
        """Act until the budget is reached or a stop is asked for; count and yield transitions.

        They come with the index of their environment. The iterator may end in the middle of a step
        of all environments: the rest of it is saved, and comes first when the run is continued.
        """
        if self.over():
            return
        policy = functools.partial(self.agent.policy, mode="train")
        for transition, worker in self.driver.transitions(policy):
            self._count(self.driver.between_steps)
            yield transition, worker
            if self.stopping() or (self._look_at_clocks and self.over()):
                return

    def stored_steps(self) -> Iterator[int]:
        """Count steps as if they were collected, until the budget is reached or a stop is asked."""
        if self.over():
            return
        while True:
            self._count(between_steps=True)
            yield int(self.step)
            if self.stopping() or (self._look_at_clocks and self.over()):
                return

    def updates(self, step: int) -> Iterator[int]:
        """Iterate over the updates that the steps so far pay for; a stop leaves the rest owed."""
        for number in self.schedule.due(step, self.stopping):
            yield number
            self.progress.on_update(step)

    def count_update(self) -> None:
        """Count an update that something else than the schedule has decided on."""
        self.schedule.restart(self.schedule.made + 1)
        self.progress.on_update(int(self.step))

    def stopping(self) -> bool:
        """Whether to stop now; never where several processes train, which agree in `over`."""
        return self.session.stop.stopping

    def over(self) -> bool:
        """Whether the budget is reached, or all processes have to stop."""
        return self.step >= self.options.steps or self._out_of_time() or self._stopped()

    def report_due(self) -> bool:
        """Whether it is time for a report; asking starts the next period."""
        return self._look_at_clocks and self.schedule.ready and self._should_report()

    def log_due(self) -> bool:
        """Whether it is time to log; asking starts the next period."""
        return self._look_at_clocks and self._should_log()

    def save_due(self) -> bool:
        """Whether it is time for a checkpoint; asking starts the next period."""
        return self._look_at_clocks and self._should_save()

    def report(self) -> None:
        """Log what the agent believes."""
        self.settle()
        self.logger.add(self.learner.report(self.batches["report"]))

    def log(self) -> None:
        """Write all metrics, and print how far the run has come."""
        self.settle()
        step = int(self.step)
        rate = self.rate.result()
        with self.session.timer.section("log"):
            self.logger.add(self.learner.metrics(step))
            self.logger.add(self.episodes.stats(), prefix="epstats")
            self.logger.add(self.replay.stats(), prefix="replay")
            self.logger.add(self._usage.stats(), prefix="usage")
            self.logger.add("fps/policy", rate)
            summary = self.session.timer.stats()["summary"]
            if self.options.timer:
                self.logger.add("timer", summary)
            self.logger.write()
        self.progress.measure()
        print(self.progress.line(step, self.schedule.made, rate, self.schedule.waiting), flush=True)

    def save(self, score: float | None = None) -> None:
        """Start to write a checkpoint.

        Args:
          score: Of an evaluation just now that was better than all before, if it was.
        """
        self.settle()
        with self.session.busy("taking a checkpoint", "save"):
            self.checkpoint.save(int(self.step), score)
            self.saved = self.position

    def settle(self) -> None:
        """Wait for learning in the background, so that everything belongs together."""
        if self._background:
            with self.session.busy("waiting for the learner", "settle"):
                self._background.settle()

    def finish(self) -> None:
        """Save and log a last time, and say what was reached.

        Raises:
          RuntimeError: If the checkpoint cannot be written.
        """
        self.settle()
        with self.session.heartbeat.activity("writing the last checkpoint"):
            # Also tells whether an earlier save at the same position has failed.
            if not self.checkpoint.wait() or self.saved != self.position:
                self.save()
            self.log()
            complete = self.checkpoint.wait()
        if not complete:
            raise RuntimeError(
                f"The last checkpoint, at step {int(self.step)}, could not be written to "
                f"{self.checkpoint.directory}; see the warning above. The previous one is in use."
            )
        reached = self.step >= self.options.steps
        print(
            f"Ended at {self.describe_position()}, {self.episodes.finished:,} episodes finished "
            f"since the start.\nEverything is in {self.options.logdir}; the same command with this "
            f"--logdir{' and a larger --run.steps' if reached else ''} continues.",
            flush=True,
        )

    @property
    def position(self) -> tuple[int, int]:
        """Agent steps and updates so far."""
        return int(self.step), self.schedule.made

    def describe_position(self) -> str:
        """Describe how far the run has come."""
        step, updates = self.position
        frames = step * self.logger.multiplier
        return f"step {step:,} ({frames:,} frames) with {updates:,} updates"

    def _where(self) -> str:
        """Describe how far the run has come, as in the line of `log`; from any thread."""
        step, updates = self.position
        return self.progress.line(step, updates, self.rate.current(), self.schedule.waiting)

    def _count(self, between_steps: bool) -> None:
        """Count a transition; the clocks are looked at after a number of them, or at the end."""
        self._since_clocks = 1 if self._look_at_clocks else self._since_clocks + 1
        self.step.increment()
        self.rate.step()
        last = self.step >= self.options.steps
        self._look_at_clocks = between_steps and (last or self._since_clocks >= CLOCK_STEPS)

    def _share_clocks(self, replicas: Replicas) -> None:
        """Processes that train together decide together what depends on the time."""
        options = self.options
        # Waiting for the last checkpoint is better than none, where all have to agree.
        save_clock = Clock(options.save_every)
        can_save = lambda: not self.checkpoint.busy and save_clock()  # noqa: E731
        self._out_of_time = replicas.shared("out_of_time", lambda: self.progress.out_of_time)
        self._stopped = replicas.shared("stopped", lambda: self.session.stop.requested)
        self._should_report = replicas.shared("report", Clock(options.report_every))
        self._should_log = replicas.shared("log", Clock(options.log_every))
        self._should_save = replicas.shared("save", can_save)


class DriverState:
    """Position of the driver in a checkpoint, which is loaded before there is a driver."""

    def __init__(self) -> None:
        self._driver: Driver | None = None
        self._loaded: State = None

    def attach(self, driver: Driver) -> None:
        """Give the loaded position to the driver and take over from there."""
        self._driver = driver
        if self._loaded is not None and not driver.load(self._loaded):
            print("Every environment begins a new episode.", flush=True)
        self._loaded = None

    def save(self) -> State:
        """Return the position."""
        return self._loaded if self._driver is None else self._driver.save()

    def load(self, state: State) -> None:
        """Keep the position until there is a driver."""
        self._loaded = state
