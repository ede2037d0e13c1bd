"""Replay: recordings, alignment, integrity, write-back, threads, accounting."""

import json
import pathlib
import threading

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embodied.core.replay import (
    Fifo,
    Prioritized,
    Recency,
    Replay,
    Requirements,
    SchemaError,
    Uniform,
)
from embodied.core.space import Space

ORACLE = pathlib.Path(__file__).parents[1] / "oracle"


def make_step(count, first=False, last=False, **extra):
    return {
        "count": np.int32(count),
        "is_first": np.bool_(first),
        "is_last": np.bool_(last),
        "is_terminal": np.bool_(False),
        "reward": np.float32(count / 2),
        "vector": np.full(3, count, np.float32),
        "latent": np.full(100, count, np.float32),
        **extra,
    }


def filled(steps=40, length=5, workers=1, **kwargs):
    replay = Replay(length, **{"chunksize": 8, **kwargs})
    for count in range(steps):
        for worker in range(workers):
            replay.add(make_step(count + 1000 * worker), worker)
    return replay


def test_recorded_trace():
    """Items, queue, and the online rows with their flags are as the public code has them."""
    trace = json.loads((ORACLE / "replay_trace.json").read_text())
    replay = Replay(trace["length"], trace["capacity"], chunksize=trace["chunksize"], online=True)
    history = {}
    online_rows = 0
    for event in trace["events"]:
        if "add" in event:
            step = event["add"]
            stored = {
                "step": np.int32(step["step"]),
                "worker": np.int32(step["worker"]),
                "is_first": np.bool_(step["is_first"]),
                "is_last": np.bool_(step["is_last"]),
            }
            history[step["worker"], step["step"]] = step
            replay.add(stored, step["worker"])
            assert (len(replay), replay.queued) == (event["items"], event["queue"])
            continue
        batch, before = len(event["step"]), replay.queued
        data = replay.sample(batch, event["sample"])
        assert replay.queued == event["queue_after"]
        if event["sample"] == "train":
            for row in range(min(batch, before)):
                online_rows += 1
                for key in ("step", "worker", "is_first", "is_last"):
                    assert data[key][row].tolist() == event[key][row]
        else:
            assert replay.queued == before
        for row in range(batch):
            assert_valid_window(data, row, history)
    assert online_rows >= 16


def assert_valid_window(data, row, history):
    steps, worker = data["step"][row], data["worker"][row, 0]
    assert (data["worker"][row] == worker).all() and (np.diff(steps) == 1).all()
    flags = [history[worker, step] for step in steps.tolist()]
    first = [bool(flag["is_first"]) for flag in flags]
    last = [bool(flag["is_last"]) for flag in flags]
    after = [*first[1:], False]
    assert data["is_first"][row].tolist() == [True, *first[1:]]
    assert data["is_last"][row].tolist() == [a or b for a, b in zip(last, after, strict=True)]


def test_recorded_online_queue():
    recorded = json.loads((ORACLE / "online_queue.json").read_text())
    pushes = recorded["pushes_[step_n, window_start]"]
    replay, found = Replay(recorded["length"], chunksize=64, online=True), []
    for count in range(pushes[-1][0] + recorded["length"]):
        replay.add(make_step(count))
        if replay.queued:
            found.append([count, replay.sample(1)["count"][0, 0].item()])
    assert found == pushes


def test_report_leaves_queue_and_counts_alone():
    replay = filled(40, online=True)
    queued = replay.queued
    replay.sample(6, "report")
    assert replay.queued == queued > 0
    assert replay.stats()["samples"] == 0
    with pytest.raises(ValueError, match="mode 'test'"):
        replay.sample(6, "test")
    with pytest.raises(ValueError, match="batch 0"):
        replay.sample(0)


@pytest.mark.parametrize("selector", [Uniform, Fifo, Recency, Prioritized])
def test_reports_have_no_influence_on_training(selector):
    one, other = (filled(60, online=True, selector=selector()) for _ in range(2))
    for _ in range(10):
        report = other.sample(20, "report")
        assert (np.diff(report["count"], axis=1) == 1).all()
        np.testing.assert_array_equal(one.sample(3)["count"], other.sample(3)["count"])
    again = filled(60, online=True, selector=selector())
    np.testing.assert_array_equal(
        again.sample(20, "eval")["count"],
        filled(60).sample(20, "report")["count"],
        "reports are drawn uniformly whatever the selector",
    )


def test_queued_windows_whose_chunk_is_gone_are_passed_over():
    replay = filled(6, length=5, capacity=10, chunksize=4, online=True)
    assert replay.queued == 1
    for count in range(6, 20):
        replay.add(make_step(count))
    # The window from step 1 is no item any more since step 16; its chunk goes with step 18.
    assert len(replay) == 10
    assert replay.sample(1)["count"][0].tolist() == [6, 7, 8, 9, 10]


def test_queued_window_outlives_its_item_while_its_chunk_is_there():
    replay = filled(15, length=5, capacity=8, chunksize=8, online=True)
    starts = replay.sample(2)["count"][:, 0].tolist()
    assert starts == [1, 6], "item 1 is evicted, its chunk is not"


def test_online_queue_without_consumer_is_bounded():
    replay = Replay(2, 10, chunksize=4, online=True)
    for count in range(1000):
        replay.add(make_step(count))
        assert replay.queued <= 16
    assert replay.sample(1)["count"][0, 0] == 989, "the oldest whose chunk is there"


@settings(max_examples=60, deadline=None)
@given(
    length=st.integers(1, 9),
    chunksize=st.integers(1, 12),
    episode=st.integers(1, 7),
    workers=st.integers(1, 3),
    abandon=st.booleans(),
)
def test_alignment_on_a_counter(length, chunksize, episode, workers, abandon):
    """The observation is a counter and echoes the last action."""
    replay, total = Replay(length, chunksize=chunksize), 4 * length + 2 * episode
    for count in range(total):
        for worker in range(workers):
            inner = count % episode
            step = {
                "count": np.int64(inner),
                "worker": np.int64(worker),
                "echo": np.float32(0 if inner == 0 else inner - 1 + 100 * worker),
                "action": np.float32(inner + 100 * worker),
                "is_first": np.bool_(inner == 0),
                "is_last": np.bool_(inner == episode - 1 and not abandon),
            }
            replay.add(step, worker)
    assert len(replay) == workers * (total - length + 1)
    data = replay.sample(32)
    for row in range(32):
        assert len(set(data["worker"][row])) == 1
        for time in range(length):
            begins = data["count"][row, time] == 0
            assert data["is_first"][row, time] == (begins or time == 0)
            if time == 0:
                continue
            assert data["is_last"][row, time - 1] == begins
            if not begins:
                assert data["count"][row, time] == data["count"][row, time - 1] + 1
                assert data["echo"][row, time] == data["action"][row, time - 1]
    ends = data["count"][:, -1] == episode - 1
    assert (data["is_last"][:, -1] == (ends & (not abandon))).all()


def test_samples_are_fresh_contiguous_arrays_of_the_stored_types():
    extra = {
        "half": np.zeros(200, ml_dtypes.bfloat16),
        "tiny": np.ones((), ml_dtypes.bfloat16),
        "image": np.zeros((8, 8, 3), np.uint8),
        "double": np.float64(3),
        "log/score": np.float32(1),
    }
    replay = Replay(4, chunksize=3)
    for count in range(20):
        replay.add(make_step(count, **extra))
    data = replay.sample(3)
    step = make_step(0, **extra)
    assert set(data) == set(step) - {"log/score"} | {"stepid"}
    for key, value in data.items():
        assert value.flags.c_contiguous and value.flags.writeable
        if key != "stepid":
            assert value.shape == (3, 4, *np.shape(step[key]))
            assert value.dtype == np.asarray(step[key]).dtype
    assert (data["stepid"].dtype, data["stepid"].shape) == (np.uint8, (3, 4, 20))
    before = {key: value.copy() for key, value in replay.sample(200).items()}
    for value in replay.sample(200).values():
        value[...] = 1
    after = replay.sample(200)
    assert {*before["count"].flat} >= {*after["count"].flat}
    np.testing.assert_array_equal(after["latent"][..., 0], after["count"])


def test_stepids_name_chunk_and_index():
    data = filled(20, chunksize=8).sample(50)
    for counts, stepids in zip(data["count"], data["stepid"], strict=True):
        for count, stepid in zip(counts.tolist(), stepids, strict=True):
            assert int.from_bytes(stepid[16:].tobytes(), "big") == count % 8
    chunks = {(count // 8, row[:16].tobytes()) for count, row in zip(
        data["count"].ravel().tolist(), data["stepid"].reshape(-1, 20), strict=True)}  # fmt: skip
    assert len(chunks) == 3


# What comes in through the door.


@pytest.mark.parametrize(
    "change, words",
    [
        ({"reward": None}, "no key 'reward'"),
        ({"other": np.float32(0)}, "the extra key 'other'"),
        ({"reward": np.float64(0)}, "'reward' of worker 2 as float64.*expected float32"),
        ({"reward": np.zeros(1, np.float32)}, r"'reward' of worker 2 as float32\(1,\)"),
        ({"vector": np.zeros((3, 1), np.float32)}, r"'vector' .* float32\(3, 1\).*\(3,\)"),
        ({"vector": np.zeros(3, ">f4")}, "'vector' of worker 2 as >f4"),
        ({"vector": [0.0, 1.0, 2.0]}, "'vector' of worker 2 as float64"),
        ({"vector": np.array([0, 1, None])}, "'vector' of worker 2 as object"),
        ({"vector": np.array([0, np.nan, 0], np.float32)}, "NaN in key 'vector' of worker 2"),
        ({"vector": np.array([0, -np.nan, 0], np.float32)}, "NaN in key 'vector' of worker 2"),
        ({"reward": np.float32(np.nan)}, "NaN in key 'reward' of worker 2"),
        ({"latent": np.full(100, np.nan, np.float32)}, "NaN in key 'latent' of worker 2"),
    ],
)
def test_bad_steps_are_refused_and_leave_nothing(change, words):
    replay = filled(10, workers=3)
    items, stats = len(replay), replay.stats()
    step = {key: x for key, x in {**make_step(10), **change}.items() if x is not None}
    with pytest.raises(SchemaError, match=words):
        replay.add(step, 2)
    assert len(replay) == items and replay.stats()["inserts"] == 0
    assert stats["inserts"] == 30
    replay.add(make_step(2010), 2)
    data = replay.sample(300)
    assert (np.diff(data["count"], axis=1) == 1).all()
    for value in data.values():
        assert np.isfinite(value.astype(np.float64)).all()


@pytest.mark.parametrize(
    "value, words",
    [
        (np.array(["a"]), "'x' with dtype <U1"),
        (np.array([None]), "'x' with dtype object"),
        (np.float32(np.nan), "NaN in key 'x'"),
        (np.zeros(3, ">f4"), "'x' with dtype >f4"),
    ],
)
def test_a_bad_first_step_fixes_nothing(value, words):
    replay = Replay(2)
    with pytest.raises(SchemaError, match=words):
        replay.add({"x": value})
    assert replay.schema is None
    replay.add({"x": np.int32(0)})
    with pytest.raises(SchemaError, match="without keys"):
        Replay(2).add({"log/x": np.float32(0)})
    with pytest.raises(SchemaError, match="stepid"):
        Replay(2).add({"stepid": np.zeros(20, np.uint8)})


def test_infinities_and_huge_numbers_are_data():
    replay = Replay(1)
    vector = np.array([-np.inf, np.inf, 3e38], np.float32)
    for _ in range(3):
        replay.add({"x": vector, "y": np.full(80, -np.inf, np.float32)})
    np.testing.assert_array_equal(replay.sample(1)["x"][0, 0], vector)


def test_values_of_other_kinds_are_taken_if_the_type_is_right():
    """Lists of the right type do not exist, but 0-d arrays and slices with strides do."""
    replay = Replay(1)
    wide = np.arange(12, dtype=np.float32).reshape(3, 4)
    half = np.arange(8).astype(ml_dtypes.bfloat16)
    for x, y in ((wide[:, 1], half[::2]), (wide[:, 2].copy(), half[1::2].copy())):
        replay.add({"x": x, "y": y, "z": np.array(True)})
    replay.add({"z": np.True_, "y": half[:4], "x": wide[:, 0], "log/a": 3})
    data = replay.sample(100)
    assert {tuple(row) for row in data["x"][:, 0].tolist()} == {(1, 5, 9), (2, 6, 10), (0, 4, 8)}
    assert {tuple(row) for row in data["y"][:, 0].astype(int).tolist()} == {
        (0, 2, 4, 6), (1, 3, 5, 7), (0, 1, 2, 3)
    }  # fmt: skip
    empty = Replay(1)
    empty.add({"x": np.zeros((0, 3), np.float32), "y": np.float32(1)})
    assert empty.sample(2)["x"].shape == (2, 1, 0, 3)


def test_only_large_or_only_small_keys():
    for step in ({"x": np.zeros(100)}, {"x": np.float64(0)}, {"x": np.zeros(64), "y": np.ones(64)}):
        replay = Replay(2)
        for _ in range(4):
            replay.add(step)
        data = replay.sample(3)
        assert all((data[key] == value).all() for key, value in step.items())


# Write-back.


def test_update_across_chunks_and_rows():
    replay = filled(40, length=11, chunksize=4)
    data = replay.sample(6)
    latest = {}
    latent = np.zeros((6, 10, 100), np.float32)
    for row in range(6):
        for time in range(10):
            latent[row, time] = 1000 + 100 * row + time
            latest[data["count"][row, time + 1].item()] = latent[row, time, 0]
    replay.update({"stepid": data["stepid"][:, 1:], "latent": latent})
    data = replay.sample(300)
    expected = np.vectorize(lambda count: latest.get(count, count))(data["count"])
    np.testing.assert_array_equal(data["latent"], np.repeat(expected[..., None], 100, -1))
    np.testing.assert_array_equal(data["vector"][..., 0], data["count"])


def test_update_skips_evicted_rows_and_counts_the_rest():
    replay = filled(20, length=4, capacity=12, chunksize=4)
    data = replay.sample(40)
    data = {key: value[np.argsort(data["count"][:, 0])] for key, value in data.items()}
    for count in range(20, 28):
        replay.add(make_step(count))
    replay.stats()
    replay.update({"stepid": data["stepid"], "latent": np.full((40, 4, 100), -1, np.float32)})
    written = (data["count"][:, 0] >= 12).sum()
    assert 0 < written < 40 and replay.stats()["updates"] == 4 * written
    after = replay.sample(200)
    changed = {*data["count"][data["count"][:, 0] >= 12].ravel().tolist()}
    np.testing.assert_array_equal(
        after["latent"][..., 0] == -1, np.isin(after["count"], list(changed))
    )


def test_update_refuses_what_does_not_fit():
    replay = filled(20)
    data = replay.sample(2)
    stepid, latent = data["stepid"], data["latent"]
    bad = latent.copy()
    bad[1, 2, 3] = np.nan
    for change, words in [
        ({"other": latent}, "key 'other', expected stored keys"),
        ({"latent": latent.astype(np.float64)}, "key 'latent' as float64"),
        ({"latent": latent[:, 1:]}, "key 'latent' as float32"),
        ({"latent": bad}, "NaN in an update of key 'latent'"),
        ({"stepid": stepid[:, 0]}, "stepid as uint8"),
        ({"stepid": stepid.astype(np.int32)}, "stepid as int32"),
        ({"stepid": stepid[:, [0, 1, 2, 4, 3]], "latent": latent}, "not consecutive"),
    ]:
        with pytest.raises(SchemaError, match=words):
            replay.update({"stepid": stepid, **change})
    Replay(5).update({"stepid": stepid, "latent": latent})
    replay.update({"stepid": stepid, "latent": latent, "priority": np.ones((2, 5))})
    assert np.isfinite(replay.sample(100)["latent"]).all()


def test_priorities_steer_what_is_drawn():
    replay = filled(40, length=5, selector=Prioritized(1.0, 0.0, False, 1.0))
    data = replay.sample(64)
    row = int(np.argmax(data["count"][:, 0]))
    data = {key: data[key][row : row + 1] for key in ("stepid", "count")}
    replay.update({"stepid": data["stepid"], "priority": np.array([[0, 0, 0, 0, 2.0]])})
    ends = data["count"][0, -1]
    drawn = replay.sample(50)["count"]
    assert (drawn == ends).any(1).all(), "only windows with the step that has a priority"


# Accounting.


def test_stats_have_the_public_names_and_count_since_the_last_call():
    replay = filled(50, length=5, workers=2, capacity=60)
    replay.sample(8)
    data = replay.sample(8)
    replay.update({"stepid": data["stepid"], "latent": data["latent"]})
    stats = replay.stats()
    assert set(stats) == {
        "chunks", "inserts", "items", "ram_gb", "replay_ratio", "samples", "streams", "updates"
    }  # fmt: skip
    assert (stats["items"], stats["streams"], stats["inserts"]) == (60, 2, 100)
    assert (stats["samples"], stats["updates"]) == (16, 40)
    assert stats["replay_ratio"] == 16 * 5 / 100
    assert stats["chunks"] == 10
    bytes_ = stats["ram_gb"] * 1024**3
    assert bytes_ == stats["chunks"] * 8 * (replay.schema.step_bytes + 8)
    assert {key: replay.stats()[key] for key in ("inserts", "samples", "updates")} == {
        "inserts": 0, "samples": 0, "updates": 0
    }  # fmt: skip


def test_capacity_in_items_oldest_first():
    replay = filled(50, length=5, workers=2, capacity=20)
    assert len(replay) == 20
    counts = replay.sample(500)["count"][:, 0] % 1000
    assert {*counts.tolist()} == {*range(36, 46)}


def test_requirements_hold():
    spaces = {key: Space(x.dtype, x.shape) for key, x in make_step(0).items()}
    need = Requirements.from_spaces(spaces, 5, 100, 8, workers=3)
    replay = filled(200, length=5, workers=3, capacity=100)
    assert need.step_bytes == replay.schema.step_bytes
    stored = replay.stats()["ram_gb"] * 1024**3
    assert 0.3 * need.ram_bytes < stored < need.ram_bytes
    least = sum(np.asarray(x).nbytes for x in make_step(0).values())
    assert least + 20 <= need.step_bytes <= least + 40
    for text in ("bytes per step", "100 items", "memory", "disk"):
        assert text in need.summary()
    assert need.problem(10**9, 10**9) is None
    assert "memory when full, but 0.00 GiB" in need.problem(100, 10**9)
    assert "disk" in need.problem(10**9, 100)
    unlimited = Requirements.from_spaces(spaces, 5, None)
    assert unlimited.ram_bytes is None and "unlimited" in unlimited.summary()
    assert unlimited.problem(0, 0) is None


def test_bfloat16_and_indices_take_at_most_45_percent():
    """Of float32 and one-hot, at the 12M latent sizes."""
    small = {"action": Space(np.float32, (6,)), "reward": Space(np.float32)}
    public = {"deter": Space(np.float32, 2048), "stoch": Space(np.float32, (32, 16))}
    compact = {"deter": Space(ml_dtypes.bfloat16, 2048), "stoch": Space(np.uint8, 32)}
    need = [Requirements.from_spaces({**x, **small}, 65, 100) for x in (compact, public)]
    assert need[0].bytes_per_step <= 0.45 * need[1].bytes_per_step


def test_clear_forgets_items_and_keys():
    replay = filled(20)
    replay.clear()
    assert len(replay) == 0 and replay.schema is None and replay.stats()["chunks"] == 0
    for _ in range(5):
        replay.add({"other": np.float32(1)})
    assert replay.sample(2)["other"].shape == (2, 5)


@pytest.mark.parametrize("kwargs", [{"length": 0}, {"capacity": 0}, {"chunksize": 0}])
def test_numbers_out_of_range(kwargs):
    with pytest.raises(ValueError, match="at least 1"):
        Replay(**{"length": 5, **kwargs})


# Threads.


def test_sampling_waits_for_the_first_item():
    replay, result = Replay(3), []
    thread = threading.Thread(target=lambda: result.append(replay.sample(2)), daemon=True)
    thread.start()
    for count in range(3):
        assert not result
        replay.add(make_step(count))
    thread.join(60)
    assert result[0]["count"].tolist() == [[0, 1, 2]] * 2


def test_long_waits_are_reported(caplog, monkeypatch):
    monkeypatch.setattr("embodied.core.replay.replay.WAIT_MESSAGE_SECONDS", 0.01)
    replay, errors = Replay(3, name="pool"), []

    def sample():
        try:
            replay.sample(1)
        except RuntimeError as error:
            errors.append(str(error))

    replay.add(make_step(0))
    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    thread.join(0.2)
    replay.close()
    thread.join(60)
    assert "closed, empty pool" in errors[0]
    text = caplog.records[0].getMessage()
    assert "pool waits" in text and "1 steps of 1 workers and 0 items" in text
    assert "needs 3 steps" in text


def test_threads_add_sample_update_and_save(tmp_path):
    """Windows stay whole and steps unmixed while everything happens at once."""
    replay = Replay(6, 200, tmp_path, chunksize=16, online=True)
    stop, errors = threading.Event(), []

    def guarded(work):
        def run():
            try:
                while not stop.is_set():
                    work()
            except BaseException as error:
                errors.append(error)
                stop.set()

        return run

    counts = [0, 0]

    def add(worker):
        value = counts[worker]
        replay.add(make_step(value, latent=np.full(20000, value, np.float32)), worker)
        counts[worker] += 1

    def sample():
        data = replay.sample(8)
        assert (np.diff(data["count"], axis=1) == 1).all()
        latent = data["latent"]
        assert (latent == latent[..., :1]).all(), "no step is half old and half new"
        replay.update({"stepid": data["stepid"], "latent": -latent})

    for worker in range(2):
        for _ in range(6):
            add(worker)
    works = [lambda: add(0), lambda: add(1), sample, sample, replay.save]
    threads = [threading.Thread(target=guarded(work), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    while min(counts) < 400 and not stop.is_set():
        stop.wait(0.01)
    stop.set()
    for thread in threads:
        thread.join(60)
    assert not errors, errors
    assert len(replay) == 200
