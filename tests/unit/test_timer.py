"""Time measurement."""

import threading

import pytest

from embodied.core import timer as timer_module
from embodied.core.timer import Timer


class Clock:
    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(timer_module, "time", clock)
    return clock


def test_stats_of_sections(clock):
    timer = Timer()
    for seconds in (1.0, 3.0):
        with timer.section("env"):
            clock.now += seconds
    with timer.section("train"):
        clock.now += 4.0
    stats = timer.stats()
    assert stats["env/seconds"] == 4
    assert stats["env/share"] == 0.5
    assert stats["env/count"] == 2
    assert stats["env/avg"] == 2
    assert stats["env/max"] == 3
    assert stats["train/share"] == 0.5
    assert "50.0%  env" in stats["summary"]
    assert timer.stats()["summary"] == "0.0 s since the last summary"


def test_stats_without_reset(clock):
    timer = Timer()
    timer.record("a", 2.0)
    clock.now = 4.0
    assert timer.stats(reset=False)["a/share"] == 0.5
    assert timer.stats()["a/count"] == 1


def test_a_section_that_raises_is_measured(clock):
    timer = Timer()
    with pytest.raises(KeyError), timer.section("bad"):
        clock.now += 1
        raise KeyError
    assert timer.stats()["bad/seconds"] == 1


def test_threads_do_not_lose_counts():
    timer = Timer()

    def work():
        for _ in range(500):
            with timer.section("x"):
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert timer.stats()["x/count"] == 2000
