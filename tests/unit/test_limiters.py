"""Limiters: rules, waiting, messages, state."""

import re
import threading

import pytest

from embodied.core.replay import MinSize, SamplesPerInsert


def test_min_size():
    limiter = MinSize(3)
    for _ in range(3):
        assert not limiter.want_sample() and limiter.want_insert()
        assert not limiter.sample(timeout=0)
        assert limiter.insert()
    assert limiter.want_sample() and limiter.sample(5)
    assert (limiter.inserts, limiter.samples) == (3, 5)


def test_samples_per_insert_moves_between_its_bounds():
    limiter = SamplesPerInsert(2.0, tolerance=4, minsize=3)
    assert limiter.insert(3) and limiter.want_insert()
    drawn = 0
    while limiter.sample(timeout=0):
        drawn += 1
    assert drawn == 4, "sampling may be ahead by the tolerance"
    assert limiter.insert() and limiter.sample() and limiter.sample()
    assert not limiter.want_sample()
    inserted = 0
    while limiter.insert(timeout=0):
        inserted += 1
    assert inserted == 4, "from -4 up to +4 in steps of 2"
    assert not limiter.want_insert() and limiter.want_sample()


def test_samples_per_insert_waits_for_the_minimum():
    limiter = SamplesPerInsert(100.0, tolerance=1, minsize=5)
    for _ in range(5):
        assert not limiter.want_sample()
        assert limiter.insert(timeout=0), "before the minimum inserting never waits"
    assert limiter.want_sample()


@pytest.mark.parametrize("rate, tolerance", [(0.1, 1), (3.7, 2), (50.0, 0.5), (0.0, 1)])
def test_one_side_always_goes_on(rate, tolerance):
    limiter = SamplesPerInsert(rate, tolerance, minsize=2)
    for _ in range(1000):
        assert limiter.want_insert() or limiter.want_sample()
        _ = limiter.sample(timeout=0) or limiter.insert(timeout=0)
    beyond = limiter.inserts - 2
    assert abs(limiter.samples - rate * beyond) <= tolerance + max(rate, 1)


def test_threads_wake_each_other():
    limiter = SamplesPerInsert(4.0, tolerance=8, minsize=10)

    def insert():
        for _ in range(510):
            limiter.insert()

    def sample():
        for _ in range(2000):
            limiter.sample()

    threads = [threading.Thread(target=fn, daemon=True) for fn in (insert, sample)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert (limiter.inserts, limiter.samples) == (510, 2000)


@pytest.mark.parametrize(
    "limiter, call, words",
    [
        (MinSize(5, "pool", 0.01), "sample", "Sampling from the pool .* 2 items and 5 are needed"),
        (SamplesPerInsert(1, 1, 5, "pool", 0.01), "sample", "Sampling .* 2 items and 5 are needed"),
        (SamplesPerInsert(1, 1, 1, "pool", 0.01), "insert", "Inserting into .* learner is behind"),
    ],
)
def test_long_waits_are_reported(limiter, call, words, caplog):
    limiter.insert(2)
    assert not getattr(limiter, call)(timeout=0.05)
    messages = [record.getMessage() for record in caplog.records]
    assert messages
    assert all(re.search(words, message) for message in messages)


def test_close_ends_waiting():
    limiter, result = MinSize(1), []
    thread = threading.Thread(target=lambda: result.append(limiter.sample()), daemon=True)
    thread.start()
    limiter.close()
    thread.join(30)
    assert result == [False] and limiter.samples == 0


def test_save_and_load():
    limiter = SamplesPerInsert(2.0, 4, 3)
    limiter.insert(6), limiter.sample(3)
    other = SamplesPerInsert(2.0, 4, 3)
    other.load(limiter.save())
    while limiter.sample(timeout=0):
        assert other.sample(timeout=0)
    assert not other.want_sample()


@pytest.mark.parametrize("args", [(-1, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_numbers_out_of_range(args):
    with pytest.raises(ValueError, match="expected"):
        SamplesPerInsert(*args)
    with pytest.raises(ValueError, match="minimum"):
        MinSize(0)
