"""Decides when to learn, and does it."""

from collections.abc import Callable, Iterator
from typing import Any

from embodied.core.aggregate import Agg
from embodied.core.clock import Clock
from embodied.core.interfaces import Agent, Stream
from embodied.core.ratio import Ratio
from embodied.core.replay.replay import Replay
from embodied.core.state_tree import same_layout
from embodied.core.timer import Timer
from embodied.run.heartbeat import Heartbeat
from embodied.run.progress import Progress, Rate
from embodied.run.replicas import Replicas
from embodied.run.stop import StopSignals


class Learner:
    """Makes the updates that each transition pays for, and reports.

    Called after every single transition (spec rows 6.1, 6.2): nothing happens until the replay has
    as many items as a batch has trained steps; then the first call makes one update, and the later
    ones `train_ratio / (batch_size * batch_length)` per transition on average. Waiting for items is
    never paid back, neither at the start nor when a resumed run has lost some of them.

    Its state says how many updates were made and how many are still due, so that a run which was
    stopped between two updates neither repeats nor skips one.

    Attributes:
      needed: Items that the replay has to have.
      updates: Updates made, those before a restart included.
    """

    def __init__(
        self,
        agent: Agent,
        replay: Replay,
        streams: tuple[Stream, Stream],
        args: Any,
        progress: Progress,
        tools: tuple[StopSignals, Heartbeat, Timer],
    ) -> None:
        """Create the learner.

        Args:
          agent: Learns and reports.
          replay: Holds the items; gets the write-back.
          streams: Batches for training and for reports, as `agent.stream` gives them.
          args: Options of the run.
          progress: Is told of every update.
          tools: Stop requests are honoured between updates; waiting is announced and measured.
        """
        self.needed = args.batch_size * args.batch_length
        self.updates = 0
        self._agent = agent
        self._replay = replay
        self._train_stream, self._report_stream = streams
        self._args = args
        self._progress = progress
        self._stop, self._heartbeat, self._timer = tools
        self._ratio = Ratio(args.train_ratio / self.needed)
        self._started = False
        self._due = 0
        self._train_carry = agent.init_train(args.batch_size)
        self._report_carries: dict[str, Any] = {}
        self._several = False
        self._metrics = Agg()
        self._rate = Rate()
        self._logged = (0, 0)
        self._should_report: Callable[[], bool] = Clock(args.report_every)

    def __call__(self, step: int) -> None:
        """Make the updates that are due.

        Args:
          step: Agent steps so far, all environments together.

        Raises:
          StopRequested: Between updates, if the run has to stop.
        """
        if not self.ready:
            if self._started:
                self._ratio = Ratio(self._args.train_ratio / self.needed)
                self._started = False
            return
        self._started = True
        self._due += self._ratio(step)
        self.settle(step)

    def settle(self, step: int) -> None:
        """Make the updates that a run which was stopped between two of them still owes.

        Raises:
          StopRequested: Between updates, if the run has to stop.
        """
        while self._due and self.ready:
            self._stop.check()
            self._update()
            self._due -= 1
            self._progress.on_update(step)

    def share_clock(self, replicas: Replicas) -> None:
        """Report when all processes do that train together."""
        self._should_report = replicas.shared("report", self._should_report)
        self._several = replicas.several

    def update(self, step: int) -> None:
        """Make one update, where something else than this object knows that it is due.

        Args:
          step: Agent steps so far; the schedule of later calls begins there.
        """
        self._update()
        self._ratio = Ratio(self._args.train_ratio / self.needed)
        self._progress.on_update(step)

    @property
    def ready(self) -> bool:
        """Whether there is enough to learn from."""
        return len(self._replay) >= self.needed

    @property
    def waiting(self) -> str:
        """What learning is waiting for, empty if for nothing."""
        if self.ready or not self._args.train_ratio:
            return ""
        return f"learning waits for data: {len(self._replay):,} of {self.needed:,} items"

    @property
    def report_due(self) -> bool:
        """Whether it is time for a report; asking starts the next period."""
        return self.ready and self._should_report()

    def report(self, stream: Stream | None = None, prefix: str = "report") -> dict[str, Any]:
        """Ask the agent what it believes about some batches; return the metrics.

        Args:
          stream: Batches, by default those of the replay for training.
          prefix: Put in front of the metrics; batches of one prefix continue each other.
        """
        metrics = Agg()
        stream = stream or self._report_stream
        carry = self._report_carries.pop(prefix, None)
        carry = self._agent.init_report(self._args.batch_size) if carry is None else carry
        with self._heartbeat.activity("making a report"), self._timer.section("report"):
            for _ in range(self._args.report_batches * self._args.consec_report):
                carry, result = self._agent.report(carry, self._next(stream))
                metrics.add(result)
        self._report_carries[prefix] = carry
        return metrics.result(prefix=prefix)

    def metrics(self, step: int) -> dict[str, Any]:
        """Return the training metrics since the last call.

        Among them are the trained steps per second (`fps/train`) and, once it learns, the trained
        steps per agent step (`train/ratio`), which `train_ratio` should equal.
        """
        metrics = self._metrics.result(prefix="train")
        metrics["fps/train"] = self._rate.result()
        step_before, updates_before = self._logged
        if updates_before and step > step_before:
            trained = (self.updates - updates_before) * self.needed
            metrics["train/ratio"] = trained / (step - step_before)
        self._logged = (step, self.updates)
        return metrics

    def save(self) -> dict[str, Any]:
        """Return the position in the schedule."""
        return {
            "ratio": self._ratio.save(),
            "started": self._started,
            "due": self._due,
            "updates": self.updates,
            # Processes that train together only have parts of them.
            "carries": None if self._several else (self._train_carry, self._report_carries),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Continue at a saved position."""
        self._ratio.load(state["ratio"])
        self._started = state["started"]
        self._due = state["due"]
        self.updates = state["updates"]
        if state["carries"] is None or self._several:
            return
        train_carry, report_carries = state["carries"]
        # Other shapes or precisions mean other options or hardware, where sequences start anew.
        if same_layout(train_carry, self._train_carry):
            self._train_carry = train_carry
        fresh = self._agent.init_report(self._args.batch_size)
        self._report_carries = {
            prefix: carry for prefix, carry in report_carries.items() if same_layout(carry, fresh)
        }

    def _update(self) -> None:
        batch = self._next(self._train_stream)
        with self._heartbeat.activity("making an update"), self._timer.section("train"):
            self._train_carry, outs, metrics = self._agent.train(self._train_carry, batch)
        if "replay" in outs:
            with self._timer.section("write_back"):
                self._replay.update(outs["replay"])
        self.updates += 1
        self._rate.step(self.needed)
        self._metrics.add(metrics)

    def _next(self, stream: Iterator[Any]) -> Any:
        """Wait for a batch; the wait may be interrupted, and is announced when it gets long."""
        with (
            self._timer.section("batch"),
            self._heartbeat.activity("waiting for a batch", self._supply),
            self._stop.interruptible(),
        ):
            return next(stream)

    def _supply(self) -> str:
        return f"the replay has {len(self._replay):,} items, {self.needed:,} are needed"
