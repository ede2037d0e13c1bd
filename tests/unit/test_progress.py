"""Progress, banner, heartbeat and stop requests, without real time."""

import dataclasses
import signal
import sys
import threading

import numpy as np
import pytest

from embodied.core.config import ConfigError
from embodied.core.replay.requirements import Requirements
from embodied.core.space import Space
from embodied.run import banner, heartbeat, progress, stop
from embodied.run.options import RunOptions


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 0.0

        def perf_counter(self):
            return self.now

        monotonic = perf_counter

    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    monkeypatch.setattr(heartbeat, "time", clock)
    return clock


def test_time_left_follows_from_the_measured_updates(clock, capsys):
    meter = progress.Progress(budget=1000, updates_per_step=0.5)
    assert meter.seconds_left(0, env_rate=10) is None
    clock.now = 100  # Set-up and the compilation of the first update do not count.
    for step in range(40, 84, 2):
        meter.on_update(step)
        clock.now += 3
    output = capsys.readouterr().out
    assert output.count("Measured 20 updates") == 1
    assert "3 s per update" in output
    assert "22 min" in output or "23 min" in output
    assert meter.seconds_left(82, env_rate=1) == pytest.approx((1000 - 82) * 0.5 * 3)
    meter.measure()
    line = meter.line(82, 22, env_rate=0.66)
    assert line.startswith("Step 82 of 1,000 (8.2%) | 22 updates | 0.7 env steps/s | ")
    assert line.endswith(" left")


def test_time_left_without_learning_or_with_a_limit(clock):
    meter = progress.Progress(budget=1000, updates_per_step=0)
    assert meter.seconds_left(500, env_rate=50) == 10
    assert meter.seconds_left(1200, env_rate=50) == 0
    meter = progress.Progress(budget=10**10, updates_per_step=1, duration=60)
    clock.now = 20
    assert meter.seconds_left(0, env_rate=1) == 40
    assert not meter.out_of_time
    clock.now = 60
    assert meter.out_of_time


def test_an_update_at_every_step_has_a_time_left(clock):
    meter = progress.Progress(budget=1000, updates_per_step=-1)
    for step in range(21):
        clock.now += 2
        meter.on_update(step)
    assert meter.seconds_left(900, env_rate=1) == pytest.approx(200)


def test_line_says_what_is_unknown_and_what_is_waited_for(clock):
    meter = progress.Progress(budget=2000, updates_per_step=1)
    line = meter.line(100, 0, 12.34, waiting="learning waits for data: 36 of 1,024 items")
    assert line == (
        "Step 100 of 2,000 (5.0%) | 0 updates | 12.3 env steps/s | time left not known yet | "
        "learning waits for data: 36 of 1,024 items"
    )


@pytest.mark.parametrize(
    "seconds, text",
    [
        (0.4, "0 s"),
        (59, "59 s"),
        (60, "1 min 0 s"),
        (3599, "59 min 59 s"),
        (3700, "1 h 1 min"),
        (90000, "1 d 1 h"),
    ],
)
def test_format_duration(seconds, text):
    assert progress.format_duration(seconds) == text


def test_rate(clock):
    rate = progress.Rate()
    rate.step(6)
    rate.step()
    clock.now = 2
    assert rate.result() == 3.5
    rate.step(50)
    clock.now = 3
    assert rate.current() == 3.5  # Too short to tell.
    clock.now = 12
    assert rate.current() == 5
    assert rate.result() == 5
    clock.now = 13
    assert rate.result() == 0


@pytest.mark.parametrize(
    "size, text",
    [
        (10, "10 bytes"),
        (2048, "2 KB"),
        (999 * 1024, "999 KB"),
        (1010 * 1024, "0.986 MB"),
        (3.5 * 1024**3, "3.5 GB"),
        (5000 * 1024**4, "5e+03 TB"),
    ],
)
def test_format_bytes(size, text):
    assert banner.format_bytes(size) == text


def test_banner_has_schedule_frames_and_needs(tmp_path):
    options = RunOptions(str(tmp_path), steps=250_000, train_ratio=512.0)
    spaces = {"deter": Space(np.float32, (2048,)), "reward": Space(np.float32)}
    needs = Requirements.from_spaces(spaces, 65, 5_000_000, 1024, workers=16)
    text = banner.start_banner(options, needs, multiplier=2)
    assert "250,000 agent steps = 500,000 frames (2 per step), 16 environments" in text
    assert "0.5 updates per agent step, 0.25 per frame" in text
    assert "from 1,024 items on" in text
    assert "KB per step, at most 250,000 items in this run: 2.1" in text
    assert "Warning" not in text
    options = dataclasses.replace(options, steps=1e12)
    needs = Requirements.from_spaces(spaces, 65, None, 1024, workers=16)
    assert "Set a smaller capacity" in banner.start_banner(options, needs, 2)
    options = dataclasses.replace(options, replay_strict=True)
    with pytest.raises(ConfigError, match=r"of memory when full.*replay\.size.*replay\.strict"):
        banner.start_banner(options, needs, 2)


def test_heartbeat_reports_phases_and_long_activities(clock, capsys):
    beat = heartbeat.Heartbeat(period=30)
    with beat.phase("Building the agent", "takes long"):
        clock.now = 12
    with beat.activity("Waiting for a batch", lambda: "3 of 16 items"):
        activity = beat._activities[-1]
        clock.now += 29
        assert activity.overdue(30) == 0
        clock.now += 2
        assert activity.overdue(30) == 31
        assert activity.overdue(30) == 0
        clock.now += 30
        assert activity.overdue(30) == 61
        with beat.activity("inner"):
            pass
        assert activity.overdue(30) == 0  # What is inside shows that it goes on.
    assert not beat._activities
    output = capsys.readouterr().out
    assert output == "Building the agent (takes long) ...\nBuilding the agent: done in 12.0 s\n"


def test_heartbeat_thread_prints(capsys):
    printed = threading.Event()
    with heartbeat.Heartbeat(period=0.03) as beat, beat.activity("Napping", lambda: "z"):

        def detail():
            printed.set()
            return "zzz"

        beat._activities[-1].detail = detail
        assert printed.wait(60)
    assert "Still napping after 0 s: zzz" in capsys.readouterr().out


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_is_noted_where_protected_and_raised_where_not(number, code):
    before = signal.getsignal(number)
    with stop.StopSignals() as signals, signals.protected():
        signal.raise_signal(number)
        assert signals.requested
        assert signals.exit_code == code
        with pytest.raises(stop.StopRequested):
            signals.check()
        with pytest.raises(stop.StopRequested), signals.waiting():
            pytest.fail("The body must not run after a request.")
    assert signal.getsignal(number) is before
    with stop.StopSignals() as signals, pytest.raises(stop.StopRequested):
        signal.raise_signal(number)


def test_a_request_is_answered_at_once_with_what_comes_first(capsys):
    beat = heartbeat.Heartbeat()
    signals = stop.StopSignals(doing=beat.doing)
    with signals, signals.protected(), beat.activity("Making an update"):
        signal.raise_signal(signal.SIGINT)
    assert capsys.readouterr().out == (
        "Got SIGINT, stopping. First comes making an update, then everything is saved. "
        "Another Ctrl+C ends at once and saves nothing.\n"
    )
    with stop.StopSignals(), pytest.raises(stop.StopRequested):
        signal.raise_signal(signal.SIGTERM)
    assert capsys.readouterr().out == "Got SIGTERM, stopping.\n"


def test_signal_interrupts_a_wait_inside_protected_code():
    with stop.StopSignals(grace=0.05) as signals, signals.protected():
        with pytest.raises(stop.StopRequested), signals.waiting():
            signal.raise_signal(signal.SIGTERM)
            threading.Event().wait(60)
        assert signals.exit_code == 143


def test_signal_in_a_destructor_is_raised_again_after_the_grace(capsys):
    class Interrupted:
        def __del__(self):
            signal.raise_signal(signal.SIGTERM)

    hook = sys.unraisablehook
    with stop.StopSignals(grace=0.05) as signals, pytest.raises(stop.StopRequested):
        Interrupted()
        assert signals.requested
        threading.Event().wait(60)
        pytest.fail("The wait must not go on.")
    assert "Exception ignored" not in capsys.readouterr().err
    assert sys.unraisablehook is hook


def test_signal_leaves_a_short_wait_alone():
    with stop.StopSignals() as signals, signals.protected():
        with signals.waiting():
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(stop.StopRequested):
            signals.check()


def test_stop_signals_leave_other_threads_alone():
    results = []

    def work():
        with stop.StopSignals() as signals, signals.protected():
            results.append(signals.requested)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results == [False]
