"""The schedule of updates: ratio, gate, stopping, resuming (user report 12)."""

import types

import pytest

from embodied.core.timer import Timer
from embodied.run.heartbeat import Heartbeat
from embodied.run.learner import Learner
from embodied.run.progress import Progress
from embodied.run.stop import StopRequested, StopSignals


class Replay:
    def __init__(self):
        self.items = 0
        self.written = []

    def __len__(self):
        return self.items

    def update(self, data):
        self.written.append(data)


class Agent:
    def __init__(self):
        self.batches = []
        self.reports = []

    def init_train(self, batch_size):
        return 0

    def init_report(self, batch_size):
        return 100

    def train(self, carry, data):
        self.batches.append((carry, data))
        outs = {} if len(self.batches) == 1 else {"replay": data}
        return carry + 1, outs, {"loss": float(data)}

    def report(self, carry, data):
        self.reports.append((carry, data))
        return carry + 1, {"loss": float(data)}


def make(ratio, batch_size=2, batch_length=8, **kwargs):
    defaults = {"report_every": 0, "report_batches": 2, "consec_report": 2, "deterministic": False}
    args = types.SimpleNamespace(
        train_ratio=ratio,
        batch_size=batch_size,
        batch_length=batch_length,
        **{**defaults, **kwargs},
    )
    agent, replay = Agent(), Replay()
    streams = (iter(range(10**9)), iter(range(10**9)))
    tools = (StopSignals(), Heartbeat(), Timer())
    progress = Progress(10**6, 1.0)
    return Learner(agent, replay, streams, args, progress, tools), agent, replay


@pytest.mark.parametrize("shape", [(16, 64), (4, 16)])
@pytest.mark.parametrize("envs", [1, 4, 16])
@pytest.mark.parametrize("ratio", [0, 0.5, 32, 1024])
def test_number_of_updates(ratio, envs, shape):
    learner, agent, replay = make(ratio, *shape)
    size = shape[0] * shape[1]
    started, most = None, 0
    for step in range(1, 5001):
        steps_per_env = -(-step // envs)
        replay.items = max(0, step - envs * 64) if steps_per_env > 64 else 0
        before = learner.updates
        learner(step)
        most = max(most, learner.updates - before)
        if learner.ready and started is None:
            started = step
            assert learner.updates == (ratio > 0)
        if started is None:
            assert learner.updates == 0
    assert abs(learner.updates - ratio * (5000 - started) / size) <= max(1, most)
    assert len(agent.batches) == learner.updates


def test_batches_carry_metrics_and_write_back():
    learner, agent, replay = make(16)
    replay.items = 16
    for step in range(1, 4):
        learner(step)
    assert agent.batches == [(0, 0), (1, 1), (2, 2)]
    assert replay.written == [1, 2]
    metrics = learner.metrics(3)
    assert metrics["train/loss"] == 1
    assert metrics["fps/train"] > 0
    assert "train/ratio" not in metrics  # Not before it has learned for a whole period.
    for step in range(4, 104):
        learner(step)
    assert learner.metrics(103)["train/ratio"] == pytest.approx(16, rel=0.01)


def test_negative_ratio_is_one_update_per_call():
    learner, _, replay = make(-1)
    replay.items = 16
    for step in range(1, 11):
        learner(step)
    assert learner.updates == 10


def test_losing_items_is_not_paid_back():
    learner, _, replay = make(16)
    replay.items = 16
    learner(1)
    learner(2)
    replay.items = 3
    for step in range(3, 500):
        learner(step)
    assert learner.updates == 2
    assert learner.waiting == "learning waits for data: 3 of 16 items"
    replay.items = 16
    learner(500)
    learner(501)
    assert learner.updates == 4
    assert learner.waiting == ""


def test_nothing_is_waited_for_without_learning():
    learner, _, _replay = make(0)
    learner(5)
    assert learner.waiting == ""


def test_stopping_between_updates_and_resuming_neither_repeats_nor_skips():
    learner, agent, replay = make(16 * 10)
    replay.items = 16
    learner(1)
    stop = learner._stop
    original = agent.train

    def train(carry, data):
        if len(agent.batches) == 4:
            stop.requested = True
        return original(carry, data)

    agent.train = train
    with pytest.raises(StopRequested):
        learner(2)
    assert learner.updates == 5
    state = learner.save()

    other, _, replay = make(16 * 10)
    replay.items = 16
    other.load(state)
    assert other.updates == 5
    other(3)
    assert other.updates == 1 + 10 + 10


def test_report_averages_its_batches_and_keeps_the_carry():
    learner, agent, _replay = make(1)
    assert learner.report() == {"report/loss": 1.5}
    assert learner.report() == {"report/loss": 5.5}
    assert [carry for carry, _ in agent.reports] == list(range(100, 108))


def test_reports_wait_for_data():
    learner, _, replay = make(16, report_every=-1)
    assert not learner.report_due
    replay.items = 16
    assert learner.report_due
    assert not make(16)[0].report_due
