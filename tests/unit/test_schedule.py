import json
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embodied.core.schedule import Ratio

RECORDED = json.loads((pathlib.Path(__file__).parent.parent / "oracle" / "ratio.json").read_text())


@pytest.mark.parametrize("rate", RECORDED)
def test_reproduces_the_recorded_calls(rate):
    ratio = Ratio(float(rate))
    assert [[step, ratio(step)] for step, _ in RECORDED[rate]] == RECORDED[rate]


@pytest.mark.parametrize("rate", RECORDED)
@pytest.mark.parametrize("stop", [0, 1, 2, 25])
def test_resuming_neither_repeats_nor_skips(rate, stop):
    calls = RECORDED[rate]
    first = Ratio(float(rate))
    before = [[step, first(step)] for step, _ in calls[:stop]]
    second = Ratio(float(rate))
    second.load(json.loads(json.dumps(first.save())))
    after = [[step, second(step)] for step, _ in calls[stop:]]
    assert before + after == calls


@given(st.floats(1e-3, 20), st.lists(st.integers(0, 50), min_size=1, max_size=60))
def test_total_is_rate_times_steps(rate, increments):
    ratio = Ratio(rate)
    step = 1000
    assert ratio(step) == 1
    total = 0
    for increment in increments:
        step += increment
        total += ratio(step)
    # The rest is carried over, so the total is never behind by more than one repetition.
    due = (step - 1000) * rate
    assert due - 1 - 1e-6 <= total <= due + 1e-6


def test_waiting_is_not_paid_back():
    assert Ratio(4)(1_000_000) == 1


@pytest.mark.parametrize("rate", [0, -1, 0.5])
def test_going_back_is_an_error(rate):
    ratio = Ratio(rate)
    ratio(10)
    ratio(10)
    with pytest.raises(ValueError, match="step 9 after step 10"):
        ratio(9)
