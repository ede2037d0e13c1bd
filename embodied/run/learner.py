"""What learning keeps between two updates, and the reports about it."""

from collections.abc import Iterator, Mapping
from typing import Any

from embodied.core.aggregate import Agg
from embodied.core.interfaces import Agent, Batch
from embodied.core.schedule import UpdateSchedule
from embodied.core.state_tree import same_layout
from embodied.run.options import RunOptions
from embodied.run.progress import Rate


class Learner:
    """The schedule of updates, the carries of training and reports, and metrics since the last log.

    Attributes:
      schedule: Says how many updates are due.
      carry: What one update hands to the next.
    """

    def __init__(self, agent: Agent, schedule: UpdateSchedule, options: RunOptions) -> None:
        """Begin with fresh carries.

        Args:
          agent: Learns and reports.
          schedule: Says how many updates are due.
          options: Options of the run.
        """
        self.schedule = schedule
        self.carry = agent.init_train(options.batch_size)
        self._agent = agent
        self._options = options
        self._report_carries: dict[str, Any] = {}
        self._metrics = Agg()
        self._rate = Rate()
        self._logged = (0, 0)

    def add(self, metrics: Mapping[str, Any]) -> None:
        """Take in the metrics of an update."""
        self._rate.step(self._options.batch_steps)
        self._metrics.add(metrics)

    def report(self, batches: Iterator[Batch], prefix: str = "report") -> dict[str, Any]:
        """Ask the agent what it believes about some batches; return the metrics.

        Args:
          batches: Data for the report.
          prefix: Put in front of the metrics; batches of one prefix continue each other.
        """
        metrics = Agg()
        options = self._options
        carry = self._report_carries.pop(prefix, None)
        carry = self._agent.init_report(options.batch_size) if carry is None else carry
        for _ in range(options.report_batches * options.consec_report):
            carry, result = self._agent.report(carry, next(batches))
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
        updates = self.schedule.made
        if updates_before and step > step_before:
            trained = (updates - updates_before) * self._options.batch_steps
            metrics["train/ratio"] = trained / (step - step_before)
        self._logged = (step, updates)
        return metrics

    def save(self) -> dict[str, Any]:
        """Return the position in the schedule and the carries."""
        # Processes that train together only have parts of the carries.
        carries = None if self._options.replicas > 1 else (self.carry, self._report_carries)
        return {**self.schedule.save(), "carries": carries}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue at a saved position."""
        self.schedule.load(state)
        if state["carries"] is None or self._options.replicas > 1:
            return
        carry, report_carries = state["carries"]
        # Other shapes or precisions mean other options or hardware, where sequences start anew.
        if same_layout(carry, self.carry):
            self.carry = carry
        fresh = self._agent.init_report(self._options.batch_size)
        self._report_carries = {
            prefix: carry for prefix, carry in report_carries.items() if same_layout(carry, fresh)
        }
