"""Counters, clocks, ratios, and the schedule of updates that is made of them."""

import itertools
import json
import pathlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embodied.core import schedule
from embodied.core.schedule import Clock, Counter, Ratio, UpdatePlan, UpdateSchedule

RECORDED = json.loads((pathlib.Path(__file__).parent.parent / "oracle" / "ratio.json").read_text())


def test_counts():
    counter = Counter(3)
    counter.increment()
    counter.increment(10)
    assert int(counter) == 14
    assert float(counter) == 14.0
    assert list(range(20))[counter] == 14


def test_compares_with_numbers_and_counters():
    counter = Counter(5)
    assert counter == 5
    assert counter != 6
    assert counter < 6 <= Counter(6)
    assert counter >= 5.0
    assert counter > Counter(4)
    assert not Counter()
    assert counter


def test_save_and_load():
    counter = Counter(7)
    other = Counter()
    other.load(counter.save())
    other.increment()
    assert (int(counter), int(other)) == (7, 8)


def test_is_mutable_and_therefore_no_key():
    with pytest.raises(TypeError, match="unhashable"):
        hash(Counter())


@pytest.fixture
def at(monkeypatch):
    """Returns a function that sets the time."""
    now = [100.0]
    monkeypatch.setattr(schedule.time, "monotonic", lambda: now[0])

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


class Items:
    """Holds a number of items."""

    def __init__(self, count=0):
        self.count = count

    def __len__(self):
        return self.count


def made(updates, step):
    return len(list(updates.due(step)))


@pytest.mark.parametrize("needed", [1024, 64])
@pytest.mark.parametrize("envs", [1, 4, 16])
@pytest.mark.parametrize("ratio", [0, 0.5, 32, 1024])
def test_number_of_updates(ratio, envs, needed):
    items = Items()
    updates = UpdateSchedule(ratio / needed, needed, items)
    started, most = None, 0
    for step in range(1, 5001):
        items.count = max(0, step - envs * 64) if -(-step // envs) > 64 else 0
        new = made(updates, step)
        most = max(most, new)
        if updates.ready and started is None:
            started = step
            assert updates.made == (ratio > 0)
        if started is None:
            assert updates.made == 0
    assert abs(updates.made - ratio * (5000 - started) / needed) <= max(1, most)


def test_negative_rate_is_one_update_per_step():
    updates = UpdateSchedule(-1, 16, Items(16))
    assert [made(updates, step) for step in range(1, 11)] == [1] * 10


def test_losing_items_is_not_paid_back():
    items = Items(16)
    updates = UpdateSchedule(1, 16, items)
    assert [made(updates, 1), made(updates, 2)] == [1, 1]
    items.count = 3
    assert not any(made(updates, step) for step in range(3, 500))
    assert updates.waiting == "learning waits for data: 3 of 16 items"
    items.count = 16
    assert [made(updates, 500), made(updates, 501)] == [1, 1]
    assert updates.waiting == ""


def test_nothing_is_waited_for_without_learning():
    updates = UpdateSchedule(0, 16, Items())
    assert made(updates, 5) == 0
    assert updates.waiting == ""


@pytest.mark.parametrize("how", ["asked", "left"])
def test_stopping_between_updates_and_resuming_neither_repeats_nor_skips(how):
    updates = UpdateSchedule(10, 16, Items(16))
    assert made(updates, 1) == 1
    if how == "asked":
        done = list(updates.due(2, stopped=lambda: updates.made == 5))
        assert done == [1, 2, 3, 4]
    else:
        for number in updates.due(2):
            if number == 5:  # An update that is left in the middle was not made.
                break
    assert (updates.made, updates.owed) == (5, 6)
    other = UpdateSchedule(10, 16, Items(16))
    other.load(json.loads(json.dumps(updates.save())))
    assert list(other.make_owed()) == [5, 6, 7, 8, 9, 10]
    assert made(other, 2) == 0
    assert made(other, 3) == 10
    assert other.made == 21


def test_after_updates_that_something_else_decides_on_a_step_pays_for_one():
    updates = UpdateSchedule(10, 16, Items(16))
    updates.restart(7)
    assert made(updates, 1000) == 1
    assert made(updates, 1001) == 10
    assert updates.made == 18


def transitions_with_updates(ratio, needed, envs, length, capacity, steps):
    """Step of every update by the schedule of the host."""
    items = []
    schedule = UpdateSchedule(ratio, needed, items)
    found = []
    for step in range(1, steps * envs + 1):
        row, env = divmod(step - 1, envs)
        if row >= length - 1:
            items.append(env)
            del items[:-capacity]
        found += [step] * len(list(schedule.due(step)))
    return found


@pytest.mark.parametrize("ratio", [0.3, 100 / 1024, 1.0, 1 / 16, -1, 0])
def test_plan_is_what_the_schedule_decides_step_by_step(ratio):
    options = {"needed": 20, "envs": 3, "length": 5, "capacity": 25}
    plan = UpdatePlan(ratio, **options)
    found = []
    position = 0
    for count in (7, 1, 30, 22):
        updates, after = plan.plan(position, count, 32)
        assert not updates[count:].any()
        for m in range(count):
            found += [(position + m) * 3 + env + 1 for env in after[m, : updates[m]]]
        position += count
        other = UpdatePlan(ratio, **options)
        other.load(plan.save())
        plan = other
    expected = transitions_with_updates(ratio, **options, steps=position)
    assert found == expected
    assert plan.made == len(expected)


def test_first_update_comes_when_there_are_as_many_items_as_it_trains_on_steps():
    plan = UpdatePlan(32 / 1024, 1024, 16, 65, 5_000_000)
    updates, after = plan.plan(0, 200, 200)
    assert np.flatnonzero(updates)[0] * 16 + after[127, 0] + 1 == 2048
    # The grid worlds: 64 sequences of 32 steps, ratio 128.
    plan = UpdatePlan(128 / 2048, 2048, 16, 33, 500_000)
    updates, after = plan.plan(0, 200, 200)
    assert np.flatnonzero(updates)[0] * 16 + after[159, 0] + 1 == 2560
    assert updates[159:].tolist() == [1] * 41
