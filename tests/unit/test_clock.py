import itertools

import pytest

from embodied.core import clock as clock_module
from embodied.core.schedule import Clock


@pytest.fixture
def at(monkeypatch):
    """Returns a function that sets the time."""
    now = [100.0]
    monkeypatch.setattr(clock_module.time, "monotonic", lambda: now[0])

    def set_time(seconds):
        now[0] = 100.0 + seconds

    return set_time


@pytest.mark.parametrize("first", [False, True])
def test_zero_is_never(at, first):
    clock = Clock(0, first)
    for second in range(5):
        at(second * 1e6)
        assert clock() is False


@pytest.mark.parametrize("every", [-1, -0.5])
def test_negative_is_always(every):
    clock = Clock(every)
    assert [clock() for _ in range(3)] == [True, True, True]


def test_positive_is_a_period_in_seconds(at):
    clock = Clock(10)
    due = []
    for second in [0, 5, 9.9, 10, 11, 19, 20, 50, 51, 59, 60]:
        at(second)
        if clock():
            due.append(second)
    assert due == [10, 20, 50, 60]


def test_the_period_starts_at_the_first_call(at):
    clock = Clock(10)
    at(1000)
    assert not clock()
    at(1009)
    assert not clock()
    at(1010)
    assert clock()


def test_first_makes_the_first_call_due(at):
    clock = Clock(10, first=True)
    calls = []
    for second in itertools.islice(itertools.count(), 12):
        at(second)
        calls.append(clock())
    assert [i for i, due in enumerate(calls) if due] == [0, 10]
