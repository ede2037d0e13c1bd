"""A run whose loop is a compiled program: its parts, and what the script does with them."""

import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from embodied.core.config import ConfigError
from embodied.core.device_program import DeviceProgram
from embodied.core.logger import Logger
from embodied.core.schedule import Clock, UpdatePlan
from embodied.core.snapshot import DamagedCheckpointError
from embodied.core.usage import Usage
from embodied.run.options import RunOptions
from embodied.run.pace import Pace
from embodied.run.progress import Progress, Rate
from embodied.run.seed_run import SeedRun, seed_folders
from embodied.run.session import Session
from embodied.run.stop import StopRequested

_LOG = logging.getLogger(__name__)

MakeProgram = Callable[[], DeviceProgram]
MakeLoggers = Callable[[], list[Logger]]


class DeviceRun:
    """The parts of a run, and what its loop does with them.

    Results are taken in a chunk late, so that the devices never wait for the host.

    Attributes:
      options: Options of the run.
      session: What stands beside the loop.
      program: Acts, stores and learns.
      seeds: What each seed has on the host.
      plan: Says which transitions pay for updates.
    """

    def __init__(
        self,
        session: Session,
        options: RunOptions,
        program: DeviceProgram,
        loggers: list[Logger],
        length: int,
        evaluates: bool = False,
    ) -> None:
        """Put the parts together.

        Args:
          session: What stands beside the loop.
          options: Options of the run.
          program: Acts, stores and learns; it is not compiled yet.
          loggers: One per seed, each with a counter of agent steps.
          length: Most iterations per chunk.
          evaluates: Whether an evaluation belongs to every report, and to the end.
        """
        self.options, self.session = options, session
        self.program = session.watched(
            program,
            start=("running a chunk", "chunk"),
            fetch=("waiting for a chunk", "chunk"),
            report=("making a report", "report"),
            evaluate=("evaluating", "evaluate"),
        )
        self.plan = UpdatePlan(
            options.updates_per_step,
            options.batch_steps,
            program.worlds,
            program.window,
            program.capacity,
        )
        folders = seed_folders(options.logdir, len(loggers))
        # A kill may come between the saves of two seeds, which then have the one before in common.
        own = dataclasses.replace(options, keep=max(options.keep, min(len(loggers), 2)))
        self.seeds = [
            SeedRun(logger, dataclasses.replace(own, logdir=folder, seed=seed), self.plan)
            for logger, folder, seed in zip(loggers, folders, program.seeds, strict=True)
        ]
        for seed in self.seeds:
            session.cleanup.callback(seed.checkpoint.wait)
        self.progress = Progress(int(options.steps), options.updates_per_step, options.duration)
        self._rate, self._usage, self._pace = Rate(), Usage(**options.usage), Pace()
        self._length, self._iterations = length, 0
        self._running: _Chunk | None = None
        self._updates = 0  # Of the results that were taken in.
        self._logged, self._saved = (0, 0), -1
        self._evaluates, self._evaluated = evaluates, -1
        self._should_report = Clock(options.report_every)
        self._should_log = Clock(options.log_every)
        self._should_save = Clock(options.save_every)

    # Where the run is.

    @property
    def step(self) -> int:
        """Agent steps of a seed whose results were taken in."""
        return int(self.seeds[0].step)

    def over(self) -> bool:
        """Whether the budget is reached, or the run has to stop."""
        reached = self._iterations * self.program.worlds >= self.options.steps
        return reached or self.progress.out_of_time or self.session.stop.stopping

    def report_due(self) -> bool:
        """Whether it is time for a report; asking starts the next period."""
        return self.plan.ready and self._should_report()

    def log_due(self) -> bool:
        """Whether it is time to log; asking starts the next period."""
        return self._should_log()

    def save_due(self) -> bool:
        """Whether it is time for a checkpoint; asking starts the next period."""
        busy = any(seed.checkpoint.busy for seed in self.seeds)
        return not busy and self._should_save()

    # What the loop does.

    @contextlib.contextmanager
    def to_the_end(self) -> Iterator[None]:
        """Surround the loop: when it is over or has to stop, save and log a last time.

        Raises:
          RuntimeError: If a checkpoint cannot be written.
        """
        with self.session.loop(self.options.logdir):
            self.seeds[0].logger.follow(self._line)
            with contextlib.suppress(StopRequested):
                yield
            self.finish()

    def compile(self) -> None:
        """Compile the program."""
        self.program.compile(self.plan.plan(self._iterations, 0, self._length))
        self._rate.result()  # Compiling does not count.

    def advance(self) -> None:
        """Start a chunk, and take in what the one before has done."""
        before = self._running
        worlds, budget = self.program.worlds, int(self.options.steps)
        left = -(-budget // worlds) - self._iterations
        count = min(self._pace.choose(self._ahead(min(left, self._length))), left)
        plan = self.plan.plan(self._iterations, count, self._length)
        begin = time.perf_counter()
        handle = self.program.start(plan, count)
        took = time.perf_counter() - begin  # All the time of the chunk where a call waits for it.
        self._running = _Chunk(handle, self._iterations, count, self.plan.made, took)
        self._iterations += count
        if before is not None:
            self._take_in(before)

    def settle(self) -> None:
        """Take in what the last chunk has done, so that everything belongs together."""
        if self._running is not None:
            self._take_in(self._running)
            self._running = None

    def report(self) -> None:
        """Log what the models believe, and how well they do."""
        self.settle()
        self.evaluate()
        for seed, metrics in zip(self.seeds, self.program.report(), strict=True):
            seed.logger.add(metrics, prefix="report")

    def evaluate(self) -> None:
        """Log the mean score of an evaluation of each seed, unless that was done just now."""
        if not self._evaluates or self._evaluated == self.step:
            return
        self._evaluated = self.step
        scores = []
        for seed, found in zip(self.seeds, self.program.evaluate(), strict=True):
            whole = ~found["partial"]
            if whole.any():
                means = {key: float(found[key][whole].mean()) for key in ("score", "length")}
                seed.logger.add(means, prefix="eval/episode")
                scores.append(f"{means['score']:.4g}")
        print(f"Evaluation: mean score {', '.join(scores) or 'unknown'}.", flush=True)

    def log(self) -> None:
        """Write all metrics, and print how far the run has come."""
        self.settle()
        with self.session.timer.section("log"):
            metrics = self._metrics()
            for seed in self.seeds:
                seed.log(metrics)
        self.progress.measure()
        print(self._line(), flush=True)

    def save(self) -> None:
        """Start to write a checkpoint of every seed."""
        self.settle()
        with self.session.busy("taking a checkpoint", "save"):
            for seed, state in zip(self.seeds, self.program.save(), strict=True):
                seed.save(state)
            self._saved = self.step

    def resume(self) -> bool:
        """Continue from the newest checkpoint that all seeds have; return whether there is one.

        Raises:
          ConfigError: If they have none in common, or it was made with other options.
        """
        found = [seed.steps() for seed in self.seeds]
        if not any(found):
            return False
        for step in [step for step in found[0] if all(step in steps for steps in found)]:
            try:
                states = [seed.load(step) for seed in self.seeds]
            except DamagedCheckpointError as error:
                _LOG.warning("Skipping a damaged checkpoint: %s", error)
                continue
            self.program.load(states)
            self._iterations = self.step // self.program.worlds
            self._updates, self._saved = self.plan.made, self.step
            self._logged = (self.step, self._updates)
            return True
        raise ConfigError(
            f"Got no checkpoint in {self.options.logdir} that is whole and of the same step for "
            f"all {len(self.seeds)} seeds, expected one; start in a new folder."
        )

    def finish(self) -> None:
        """Save and log a last time, and say what was reached.

        Raises:
          RuntimeError: If a checkpoint cannot be written.
        """
        self.settle()
        if not self.session.stop.requested:
            self.evaluate()
        with self.session.heartbeat.activity("writing the last checkpoint"):
            # Also tells whether an earlier save at the same position has failed.
            written = [seed.checkpoint.wait() for seed in self.seeds]
            if not all(written) or self._saved != self.step:
                self.save()
            self.log()
            written = [seed.checkpoint.wait() for seed in self.seeds]
        if not all(written):
            raise RuntimeError(
                f"The last checkpoint, at step {self.step}, could not be written in "
                f"{self.options.logdir}; see the warning above. The previous one is in use."
            )
        reached = self.step >= self.options.steps
        finished = sum(seed.episodes.finished for seed in self.seeds)
        print(
            f"Ended at {self.describe_position()}, {finished:,} episodes finished since the "
            f"start.\nEverything is in {self.options.logdir}; the same command with this "
            f"--logdir{' and a larger --run.steps' if reached else ''} continues.",
            flush=True,
        )

    def describe_position(self) -> str:
        """Describe how far the run has come."""
        frames = self.step * self.seeds[0].logger.multiplier
        return f"step {self.step:,} ({frames:,} frames) with {self._updates:,} updates{self._each}"

    def _ahead(self, count: int) -> np.ndarray:
        """Updates of the next iterations, without planning them."""
        state = self.plan.save()
        updates = self.plan.plan(self._iterations, count, count).updates
        self.plan.load(state)
        return updates

    def _take_in(self, chunk: "_Chunk") -> None:
        begin = time.perf_counter()
        results = self.program.fetch(chunk.handle)
        seconds = chunk.seconds + time.perf_counter() - begin
        worlds, updates = self.program.worlds, chunk.updates - self._updates
        self._pace.measure(chunk.iterations, updates, seconds)
        for seed, result in zip(self.seeds, results, strict=True):
            seed.add(result, chunk.first, worlds)
            seed.step.load((chunk.first + chunk.iterations) * worlds)
        self._rate.step(chunk.iterations * worlds)
        self._updates = chunk.updates
        if updates:
            self.progress.on_update(self.step, updates)

    def _metrics(self) -> dict[str, Any]:
        """Metrics since the last log that all seeds share; speeds are those of each seed."""
        rate, (step, updates) = self._rate.result(), self._logged
        steps, trained = self.step - step, (self._updates - updates) * self.options.batch_steps
        metrics: dict[str, Any] = {"fps/policy": rate, "replay/items": self.plan.items}
        if steps:
            metrics["fps/train"] = rate * trained / steps
        if steps and updates:
            metrics["train/ratio"] = trained / steps
        self._logged = (self.step, self._updates)
        metrics |= {f"usage/{key}": value for key, value in self._usage.stats().items()}
        if self.options.timer:
            metrics["timer"] = self.session.timer.stats()["summary"]
        return metrics

    def _line(self) -> str:
        """Describe how far the run has come, as in the line of `log`; from any thread."""
        rate = self._rate.current()
        line = self.progress.line(self.step, self._updates, rate, self.plan.waiting)
        return line + self._each

    @property
    def _each(self) -> str:
        return f", each of {len(self.seeds)} seeds" if len(self.seeds) > 1 else ""


class _Chunk(NamedTuple):
    """A chunk that is running, or whose results wait to be taken in.

    Attributes:
      handle: For `DeviceProgram.fetch`.
      first: Iterations before it.
      iterations: How many it has.
      updates: Updates at its end.
      seconds: That it took so far.
    """

    handle: Any
    first: int
    iterations: int
    updates: int
    seconds: float
