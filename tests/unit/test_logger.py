"""The logger: steps, prefixes, failing outputs."""

import logging

import ml_dtypes
import numpy as np
import pytest

from embodied.core.logger import Logger
from embodied.core.schedule import Counter
from embodied.core.writers.writer import Writer


class Collect(Writer):
    def __init__(self):
        self.writes = []
        self.closed = 0

    def __call__(self, records):
        self.writes.append([(r.step, r.key, r.kind, r.value) for r in records])

    def close(self):
        self.closed += 1


class Broken(Writer):
    def __call__(self, records):
        raise OSError("No space left on device")

    def close(self):
        raise RuntimeError("gone")


def test_steps_are_frames_at_the_time_of_adding():
    step, output = Counter(), Collect()
    logger = Logger(step, [output], multiplier=4)
    step.increment(3)
    logger.add({"score": 1.0, "length": 7}, prefix="episode")
    step.increment()
    logger.add("loss", np.float32(2))
    logger.write()
    logger.write()
    assert len(output.writes) == 1
    assert [row[:3] for row in output.writes[0]] == [
        (12, "episode/score", "scalar"),
        (12, "episode/length", "scalar"),
        (16, "loss", "scalar"),
    ]


def test_kinds_of_values():
    output = Collect()
    logger = Logger(Counter(), [output])
    logger.add({str(rank): np.zeros((2,) * rank, np.uint8) for rank in range(5)})
    logger.add({"text": "hi", "bfloat16": ml_dtypes.bfloat16(1.5)})
    logger.write()
    kinds = ["scalar", "vector", "image", "image", "video", "text", "scalar"]
    assert [row[2] for row in output.writes[0]] == kinds
    assert float(output.writes[0][-1][3]) == 1.5


@pytest.mark.parametrize("value", [None, object(), np.zeros((1,) * 5), np.array(["a"])])
def test_values_that_nothing_can_show_are_refused(value):
    with pytest.raises(ValueError, match="metric 'a/key'"):
        Logger(Counter(), []).add({"key": value}, prefix="a")


def test_multiplier_must_be_positive():
    with pytest.raises(ValueError, match="multiplier 0"):
        Logger(Counter(), [], multiplier=0)


def test_a_failing_output_is_a_warning_and_the_others_go_on(caplog):
    step, output = Counter(5), Collect()
    logger = Logger(step, [Broken(), output], multiplier=2)
    with caplog.at_level(logging.WARNING):
        logger.add("a", 1)
        logger.write()
        logger.add("a", 2)
        logger.close()
    assert [len(write) for write in output.writes] == [1, 1]
    assert output.closed == 1
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 3
    assert "Broken failed to write metrics at step 10" in messages[0]
    assert "No space left" in messages[0]
    assert "failed to close" in messages[2]
