"""What learning keeps between updates: carries, metrics, reports."""

import numpy as np
import pytest

from embodied.core.schedule import UpdateSchedule
from embodied.run.learner import Learner
from embodied.run.options import RunOptions


class Agent:
    def __init__(self):
        self.reports = []

    def init_train(self, batch_size):
        return 0

    def init_report(self, batch_size):
        return 100

    def report(self, carry, data):
        self.reports.append((carry, data))
        return carry + 1, {"loss": float(data)}


def make(**options):
    defaults = {"batch_size": 2, "batch_length": 8, "report_batches": 2, "consec_report": 2}
    options = RunOptions("unused", train_ratio=16, **{**defaults, **options})
    schedule = UpdateSchedule(options.updates_per_step, options.batch_steps, range(16))
    return Learner(Agent(), schedule, options)


def test_metrics_are_averages_since_the_last_log():
    learner = make()
    for step in range(1, 4):
        for number in learner.schedule.due(step):
            learner.add({"loss": float(number)})
    metrics = learner.metrics(3)
    assert metrics["train/loss"] == 1
    assert metrics["fps/train"] > 0
    assert "train/ratio" not in metrics  # Not before it has learned for a whole period.
    for step in range(4, 104):
        for _ in learner.schedule.due(step):
            learner.add({"loss": 0.0})
    assert learner.metrics(103)["train/ratio"] == pytest.approx(16, rel=0.01)


def test_report_averages_its_batches_and_keeps_the_carry():
    learner, batches = make(), iter(range(10))
    assert learner.report(batches) == {"report/loss": 1.5}
    assert learner.report(batches) == {"report/loss": 5.5}
    assert [carry for carry, _ in learner._agent.reports] == list(range(100, 108))
    assert learner.report(iter(range(4)), "eval") == {"eval/loss": 1.5}
    assert learner._agent.reports[8][0] == 100  # Batches of another kind do not continue these.


def test_resuming_goes_on_with_carries_and_schedule():
    learner = make()
    list(learner.schedule.due(1))
    learner.carry = 7
    other = make()
    other.load(learner.save())
    assert (other.carry, other.schedule.made) == (7, 1)


def test_carries_of_other_shapes_begin_anew():
    learner = make()
    learner.carry = np.ones(3)
    other = make()
    other.carry = np.zeros(2)
    other.load(learner.save())
    assert other.carry.shape == (2,)


def test_processes_that_train_together_keep_their_carries():
    learner = make(replicas=2)
    assert learner.save()["carries"] is None
