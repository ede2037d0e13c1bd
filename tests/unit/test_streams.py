"""Streams: order, positions, errors, ends."""

import threading
import traceback

import numpy as np
import pytest

from embodied.core.interfaces import Stream
from embodied.core.replay import Replay
from embodied.core.streams import Consec, Map, Mixer, Prefetch, Stateless, Zip, close_all


class Counter(Stream):
    """Counts from a start, ends or fails where told to, and notes what is done to it."""

    def __init__(self, start=0, stop=None, fail=None, wait=None):
        self.count, self.stop, self.fail, self.wait = start, stop, fail, wait
        self.closed = 0
        self.threads = set()

    def __next__(self):
        self.threads.add(threading.current_thread())
        if self.wait is not None:
            self.wait.wait(60)
        if self.count == self.stop:
            raise StopIteration
        if self.count == self.fail:
            raise KeyError("broken source")
        self.count += 1
        return self.count - 1

    def save(self):
        return {"count": self.count}

    def load(self, state):
        self.count = state["count"]

    def close(self):
        self.closed += 1
        if self.wait is not None:
            self.wait.set()


def take(stream, amount):
    return [next(stream) for _ in range(amount)]


def test_stateless_takes_functions_and_iterators():
    calls = []
    stream = Stateless(lambda x, y=0: calls.append((x, y)) or len(calls), 3, y=4)
    assert take(stream, 2) == [1, 2] and calls == [(3, 4), (3, 4)]
    assert list(Stateless(iter([5, 6]))) == [5, 6]
    stream.load(stream.save())
    assert next(stream) == 3
    with pytest.raises(TypeError, match="function or an iterator"):
        Stateless([1, 2])


def test_stateless_over_a_replay():
    replay = Replay(3)
    for count in range(5):
        replay.add({"count": np.int32(count)})
    data = next(Stateless(replay.sample, 2, "report"))
    assert data["count"].shape == (2, 3)


def test_map():
    stream = Map(Counter(), lambda x, y, z=0: x * y + z, 10, z=1)
    assert take(stream, 3) == [1, 11, 21]
    state = stream.save()
    assert take(stream, 2) == [31, 41]
    stream.load(state)
    assert next(stream) == 31
    stream.close()
    assert stream._source.closed == 1
    assert list(Map(Counter(stop=2), str)) == ["0", "1"]


def test_zip():
    stream = Zip([Counter(), Counter(10, stop=13)])
    assert take(stream, 2) == [(0, 10), (1, 11)]
    state = stream.save()
    assert list(stream) == [(2, 12)]
    stream.load(state)
    assert next(stream) == (2, 12)
    stream.close()
    assert all(source.closed for source in stream._sources)
    with pytest.raises(ValueError, match="no sources"):
        Zip([])


def test_mixer():
    def make(seed=0):
        sources = {"a": Counter(), "b": Counter(10**6), "c": Counter(fail=0)}
        return Mixer(sources, {"a": 3, "b": 1, "c": 0}, seed)

    stream = make()
    drawn = take(stream, 4000)
    from_a = [x for x in drawn if x < 10**6]
    from_b = [x for x in drawn if x >= 10**6]
    assert from_a == [*range(len(from_a))], "each source keeps its order"
    assert from_b == [*range(10**6, 10**6 + len(from_b))]
    assert abs(len(from_a) - 3000) < 5 * np.sqrt(4000 * 0.75 * 0.25)
    state = stream.save()
    after = take(stream, 50)
    other = make(seed=1)
    other.load(state)
    assert take(other, 50) == after
    assert take(make(), 50) == take(make(), 50) == drawn[:50] != take(make(1), 50)
    stream.close()
    assert all(source.closed for source in stream._sources.values())


@pytest.mark.parametrize("weights", [{"a": 1}, {"a": 0, "b": 0}, {"a": 1, "b": -1}])
def test_mixer_refuses_bad_weights(weights):
    with pytest.raises(ValueError, match="Got weights"):
        Mixer({"a": Counter(), "b": Counter()}, weights)


# Consec.


def sequences(steps):
    """Sequence k holds k * 100 + step index, for two rows."""
    row = lambda k: np.stack([k * 100 + np.arange(steps)] * 2)  # noqa: E731
    return Map(Counter(), lambda k: {"x": row(k), "y": row(k)[..., None] * 2})


@pytest.mark.parametrize("length, consec, prefix", [(4, 1, 1), (4, 3, 1), (2, 5, 0), (3, 2, 2)])
def test_consec_windows(length, consec, prefix):
    stream = Consec(sequences(length * consec + prefix), length, consec, prefix)
    for sequence in range(3):
        for index in range(consec):
            window = next(stream)
            expected = sequence * 100 + index * length + np.arange(length + prefix)
            np.testing.assert_array_equal(window["x"], np.stack([expected] * 2))
            assert window["y"].shape == (2, length + prefix, 1)
            assert window["consec"].dtype == np.int32
            np.testing.assert_array_equal(window["consec"], np.full((2, length + prefix), index))
            assert set(window) == {"x", "y", "consec"}


def test_consec_takes_the_front_of_longer_sequences_unless_strict():
    stream = Consec(sequences(65), 32, 1, 1, strict=False)
    np.testing.assert_array_equal(next(stream)["x"][0], np.arange(33))
    np.testing.assert_array_equal(next(stream)["x"][0], 100 + np.arange(33))
    with pytest.raises(ValueError, match=r"65 steps .* expected exactly 33"):
        next(Consec(sequences(65), 32, 1, 1))
    with pytest.raises(ValueError, match=r"64 steps .* expected at least 65"):
        next(Consec(sequences(64), 64, 1, 1, strict=False))
    for args in [(0, 1, 0), (1, 0, 0), (1, 1, -1)]:
        with pytest.raises(ValueError, match="Got length"):
            Consec(sequences(5), *args)


def test_consec_goes_on_in_the_middle_of_a_sequence():
    def make():
        return Consec(sequences(13), 4, 3, 1)

    stream = make()
    take(stream, 5)
    state = stream.save()
    expected = take(stream, 5)
    other = make()
    other.load(state)
    for one, two in zip(take(other, 5), expected, strict=True):
        for key in one:
            np.testing.assert_array_equal(one[key], two[key])
    assert make().save()["current"] is None
    stream.close()
    assert stream._source._source.closed == 1


# Prefetch.


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("amount", [1, 5])
def test_prefetch_keeps_order_and_ends(amount, deterministic):
    source = Counter(stop=50)
    stream = Prefetch(source, lambda x: x * 2, amount, deterministic)
    assert list(stream) == [*range(0, 100, 2)]
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(stream)
    own_thread = threading.current_thread() in source.threads
    assert own_thread == deterministic
    stream.close()
    stream.close()
    assert source.closed == 1


def test_prefetch_draws_ahead_by_the_amount_and_no_further():
    drawn, enough = [], threading.Semaphore(0)

    def note(x):
        drawn.append(x)
        enough.release()
        return x

    stream = Prefetch(Counter(), note, amount=3)
    assert not drawn, "nothing is drawn before the first request"
    for request in range(5):
        assert next(stream) == request
        while len(drawn) < request + 1 + 3:
            assert enough.acquire(timeout=60)
    assert not enough.acquire(timeout=0.05) or len(drawn) <= 8
    assert len(drawn) <= 8
    stream.close()


def test_deterministic_prefetch_draws_at_the_request():
    drawn = []
    stream = Prefetch(Counter(), drawn.append, amount=4, deterministic=True)
    for request in range(4):
        next(stream)
        assert drawn == [*range(request + 1)]


@pytest.mark.parametrize("where", ["source", "transform"])
@pytest.mark.parametrize("deterministic", [False, True])
def test_errors_come_with_their_traceback_again_and_again(where, deterministic):
    def broken_transform(x):
        if x == 3:
            raise KeyError("broken transform")
        return x

    source = Counter(fail=3 if where == "source" else None)
    transform = broken_transform if where == "transform" else None
    stream = Prefetch(source, transform, deterministic=deterministic)
    assert take(stream, 3) == [0, 1, 2]
    for _ in range(3):
        with pytest.raises(KeyError, match=f"broken {where}") as info:
            next(stream)
        names = [frame.name for frame in traceback.extract_tb(info.value.__traceback__)]
        assert names[-1] == ("__next__" if where == "source" else "broken_transform")
        assert len(names) < 9, "the traceback does not grow with every request"
    stream.close()


def test_prefetch_position_is_that_of_what_was_handed_out():
    source = Counter()
    stream = Prefetch(source, amount=4)
    assert stream.save() == {"count": 0}
    take(stream, 3)
    state = stream.save()
    assert state == {"count": 3}
    take(stream, 10)
    stream.load(state)
    assert take(stream, 3) == [3, 4, 5]
    other = Prefetch(Counter(), amount=2)
    other.load(state)
    assert take(other, 3) == [3, 4, 5]
    for each in (stream, other):
        each.close()


def test_prefetch_can_be_loaded_after_the_end_and_after_an_error():
    for source in (Counter(stop=3), Counter(fail=3)):
        stream = Prefetch(source)
        state = stream.save()
        take(stream, 3)
        with pytest.raises((StopIteration, KeyError)):
            next(stream)
        stream.load(state)
        assert take(stream, 3) == [0, 1, 2]
        stream.close()


def test_close_returns_while_the_source_waits():
    """And a consumer that waits for an element is let go."""
    wait = threading.Event()
    stream = Prefetch(Counter(wait=wait))
    ended = []

    def consume():
        ended.append(list(stream))

    consumer = threading.Thread(target=consume, daemon=True)
    consumer.start()
    while stream._thread is None:
        pass
    stream.close()
    consumer.join(60)
    assert ended == [[]] and stream._source.closed == 1
    assert not stream._thread.is_alive()
    with pytest.raises(StopIteration):
        next(stream)


def test_close_returns_although_the_source_is_stuck(monkeypatch):
    monkeypatch.setattr("embodied.core.streams.prefetch.CLOSE_SECONDS", 0.05)
    monkeypatch.setattr("embodied.core.streams.prefetch.LOAD_SECONDS", 0.05)
    wait = threading.Event()
    stream = Prefetch(Stateless(wait.wait))
    threading.Thread(target=lambda: next(stream, None), daemon=True).start()
    while stream._thread is None:
        pass
    with pytest.raises(RuntimeError, match="source waits"):
        stream.load(None)
    stream.close()
    wait.set()
    stream._thread.join(60)
    assert not stream._thread.is_alive()


class Meeting(Counter):
    """Its `close` returns once those of all others have begun."""

    def __init__(self, barrier):
        super().__init__()
        self.barrier = barrier

    def close(self):
        self.barrier.wait(60)
        super().close()


@pytest.mark.parametrize("combine", [Zip, lambda x: Mixer(dict(enumerate(x)), {0: 1, 1: 1, 2: 1})])
def test_several_streams_are_closed_at_the_same_time(combine):
    barrier = threading.Barrier(3)
    sources = [Meeting(barrier) for _ in range(3)]
    combine(sources).close()
    assert [source.closed for source in sources] == [1, 1, 1]


def test_all_streams_are_closed_although_one_cannot():
    sources = [Counter(), Stateless(int), Counter()]
    sources[1].close = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        close_all(sources)
    assert sources[0].closed == sources[2].closed == 1


def test_close_of_a_stream_of_streams_waits_only_once(monkeypatch):
    """What closing the source has used up is not waited for again."""
    now, waits = [100.0], []
    monkeypatch.setattr("embodied.core.streams.prefetch.time.monotonic", lambda: now[0])
    source = Counter()
    source.close = lambda: now.append(now.pop() + 0.75)
    stream = Prefetch(source)
    next(stream)
    monkeypatch.setattr(stream._thread, "join", waits.append)
    stream.close()
    assert waits == [0.25]
    threading.Thread.join(stream._thread, 60)


def test_close_leaves_no_thread():
    before = threading.active_count()
    for _ in range(5):
        stream = Prefetch(Counter(), amount=3)
        next(stream)
        stream.close()
    assert threading.active_count() == before
    with pytest.raises(ValueError, match="amount 0"):
        Prefetch(Counter(), amount=0)


def test_the_whole_pipeline_over_a_replay():
    """As the train script has it: sample, cut, prefetch."""
    replay = Replay(9, online=True)
    for count in range(60):
        replay.add({"count": np.int32(count), "is_first": np.bool_(0), "is_last": np.bool_(0)})
    for deterministic in (True, False):
        source = Stateless(replay.sample, 4)
        stream = Prefetch(Consec(source, 4, 2, 1), amount=2, deterministic=deterministic)
        for index in (0, 1, 0, 1):
            data = next(stream)
            assert (data["consec"] == index).all() and data["stepid"].shape == (4, 5, 20)
            assert (np.diff(data["count"], axis=1) == 1).all()
        stream.close()
