"""Saving and loading a replay: exact, bounded, and unimpressed by damage."""

import json
import logging
import os
import pathlib
import zipfile

import ml_dtypes
import numpy as np
import pytest

from embodied.core.replay import Prioritized, Replay, ReplaySaveError, SchemaError
from embodied.core.replay.chunk_file import ChunkHeader, write_chunk
from embodied.core.replay.folder import StoredChunk, link
from embodied.core.replay.window import find_windows

LENGTH, CHUNK = 5, 8


def make_step(count, first=False):
    return {
        "count": np.int64(count),
        "is_first": np.bool_(first),
        "is_last": np.bool_(False),
        "latent": np.full(4, count, ml_dtypes.bfloat16),
        "deter": np.full(200, count, ml_dtypes.bfloat16),
    }


def make(directory, **kwargs):
    return Replay(LENGTH, **{"directory": directory, "chunksize": CHUNK, **kwargs})


def fill(replay, start, stop, workers=2):
    for count in range(start, stop):
        for worker in range(workers):
            replay.add(make_step(count + 10000 * worker), worker)


def files(directory):
    return sorted(path.name for path in pathlib.Path(directory).iterdir())


def all_items(replay):
    """First counts of all items in order of insertion."""
    items = replay._items
    addresses = items.take(np.arange(items.first, items.stop)).tolist()
    return [part.chunk.fields["count"][part.start].item()
            for part in find_windows(replay._streams, enumerate(addresses), 1)]  # fmt: skip


def same_draws(one, other, times=5):
    for _ in range(times):
        expected, found = one.sample(7), other.sample(7)
        assert set(expected) == set(found)
        for key in expected:
            np.testing.assert_array_equal(expected[key], found[key])


def warnings_of(caplog):
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


@pytest.mark.parametrize("capacity", [None, 30])
@pytest.mark.parametrize("priority", [False, True])
def test_exact_restore(tmp_path, capacity, priority):
    def selector():
        return Prioritized(seed=1) if priority else None

    replay = make(tmp_path, capacity=capacity, online=True, seed=3, selector=selector())
    fill(replay, 0, 37)
    rng = np.random.default_rng(0)
    for _ in range(5):
        data = replay.sample(4)
        deter = rng.normal(size=data["deter"].shape).astype(ml_dtypes.bfloat16)
        priorities = rng.random((4, LENGTH))
        replay.update({"stepid": data["stepid"], "deter": deter, "priority": priorities})
    assert replay.stats()["inserts"] == 74
    fill(replay, 37, 46)
    replay.sample(3)
    state = json_like(replay.save())
    other = make(tmp_path, capacity=capacity, online=True, seed=9, selector=selector())
    other.load(state)
    assert len(other) == len(replay) and other.queued == replay.queued > 0
    assert all_items(other) == all_items(replay)
    counted, restored = replay.stats(), other.stats()
    assert (counted["samples"], counted["inserts"]) == (3, 18)
    # Chunks that nobody continues take no room for more steps.
    assert restored.pop("ram_gb") < counted.pop("ram_gb")
    assert restored == counted
    same_draws(replay, other)


def json_like(state):
    """What a checkpoint makes of a state: arrays, and what JSON knows."""
    if isinstance(state, np.ndarray):
        assert state.dtype.kind in "biuf"
        return state.copy()
    if isinstance(state, dict):
        assert all(isinstance(key, str) for key in state)
        return {key: json_like(value) for key, value in state.items()}
    return json.loads(json.dumps(state))


def test_state_is_small(tmp_path):
    replay = make(tmp_path, online=True)
    fill(replay, 0, 2000)
    text = json.dumps({key: str(value) for key, value in replay.save().items()})
    assert len(text) < 5000


def test_new_streams_after_a_restart_never_join_the_old(tmp_path):
    replay = make(tmp_path)
    fill(replay, 0, 20)
    state = replay.save()
    fill(replay, 20, 30)
    other = make(tmp_path)
    other.load(state)
    assert len(other) == len(replay) - 20
    fill(other, 20, 40)
    assert other.stats()["streams"] == 4
    counts = other.sample(500)["count"] % 10000
    assert (np.diff(counts, axis=1) == 1).all()
    assert not ((counts[:, 0] < 20) & (counts[:, -1] >= 20)).any()
    assert len(other) == 2 * 16 + 2 * 16


def test_continued_streams_are_those_of_a_run_that_never_stopped(tmp_path):
    """Also in the middle of a chunk, and without the steps that came after the save."""
    replay = make(tmp_path, online=True, continue_streams=True)
    fill(replay, 0, 19)
    state = replay.save()
    replay.add(make_step(-1), 0)
    other = make(tmp_path, online=True, continue_streams=True)
    other.load(state)
    fill(other, 19, 40)
    uninterrupted = make(None, online=True)
    fill(uninterrupted, 0, 40)
    assert all_items(other) == all_items(uninterrupted)
    assert other.queued == uninterrupted.queued
    assert other.stats()["streams"] == 2
    mine, theirs = other.sample(50), uninterrupted.sample(50)
    for key in set(mine) - {"stepid"}:
        np.testing.assert_array_equal(mine[key], theirs[key])


def test_online_windows_come_when_they_would_have_come_without_a_stop(tmp_path):
    replay = make(tmp_path, capacity=20, online=True, continue_streams=True)
    uninterrupted = make(None, capacity=20, online=True)
    for start in range(0, 100, 13):
        fill(replay, start, start + 13, workers=1)
        fill(uninterrupted, start, start + 13, workers=1)
        state = replay.save()
        replay = make(tmp_path, capacity=20, online=True, continue_streams=True)
        replay.load(state)
        amount = min(replay.queued, uninterrupted.queued)
        assert amount
        windows = [each.sample(amount)["count"].tolist() for each in (replay, uninterrupted)]
        assert windows[0] == windows[1]


def test_streams_go_on_after_a_step_was_refused_at_the_edge_of_a_chunk(tmp_path):
    replay = make(tmp_path, continue_streams=True)
    fill(replay, 0, CHUNK, workers=1)
    with pytest.raises(SchemaError, match="NaN"):
        replay.add({**make_step(9), "latent": np.full(4, np.nan, ml_dtypes.bfloat16)})
    state = replay.save()
    for other in (replay, make(tmp_path, continue_streams=True)):
        other.load(state)
        fill(other, CHUNK, CHUNK + 4, workers=1)
        assert all_items(other) == [*range(CHUNK)] and other.stats()["streams"] == 1


def test_continued_stream_without_items_goes_on(tmp_path):
    replay = make(tmp_path, continue_streams=True)
    fill(replay, 0, 3)
    other = make(tmp_path, continue_streams=True)
    other.load(replay.save())
    assert len(other) == 0
    fill(other, 3, 5)
    assert all_items(other) == [0, 10000]


def test_steps_after_the_save_are_left_out(tmp_path):
    replay = make(tmp_path)
    fill(replay, 0, 20)
    early = replay.save()
    expected = all_items(replay)
    fill(replay, 20, 60)
    replay.save()
    other = make(tmp_path)
    other.load(early)
    assert all_items(other) == expected
    other.save()
    third = make(tmp_path)
    third.load()
    assert sorted(all_items(third)) == sorted(expected)


def test_write_backs_of_steps_that_were_left_out_are_skipped(tmp_path):
    replay = make(tmp_path)
    fill(replay, 0, 20, workers=1)
    state = replay.save()
    fill(replay, 20, 24, workers=1)
    late = replay.sample(200)
    late = {key: late[key][late["count"][:, 0] == 19] for key in ("stepid", "latent")}
    assert len(late["stepid"])
    replay.load(state)
    replay.stats()
    replay.update({"stepid": late["stepid"][:, 1:], "latent": -late["latent"][:, 1:]})
    assert replay.stats()["updates"] == 0
    replay.update({"stepid": late["stepid"], "latent": -late["latent"]})
    assert replay.stats()["updates"] == len(late["stepid"]), "the one step that is still there"


def test_old_streams_go_item_by_item(tmp_path):
    """Every item can be drawn until its turn to go has come, also the last of a stream."""
    replay = make(tmp_path, capacity=24)
    fill(replay, 0, 30)
    replay.save()
    replay.load()
    oldest = all_items(replay)
    for count in range(100, 145):
        replay.add(make_step(count), 0)
        evicted = max(0, count - 100 - LENGTH + 2)
        expected = [*oldest, *range(100, count - LENGTH + 2)][evicted:]
        assert all_items(replay) == expected and len(replay) == 24
        assert {*replay.sample(300)["count"][:, 0].tolist()} <= {*expected}
        left = 1 + sum(any(x // 10000 == w for x in oldest[evicted:]) for w in range(2))
        assert replay.stats()["streams"] == left


def test_chunks_are_linked_only_when_nothing_can_be_missing():
    def part(name, successor, length=8):
        header = ChunkHeader(name, "", 0, 8, length, successor, {})
        return StoredChunk(pathlib.Path(name), header, np.arange(length))

    names = lambda chains: [[x.header.uuid for x in chain] for chain in chains]  # noqa: E731
    whole = [part("c", "d"), part("a", "b"), part("b", "c"), part("d", "", 3)]
    assert names(link(whole)) == [["a", "b", "c", "d"]]
    assert names(link([part("a", "b", 7), part("b", "")])) == [["a"], ["b"]]
    assert names(link([part("a", "b"), part("c", "")])) == [["a"], ["c"]]
    assert link([]) == []


def test_without_state_the_newest_items_come_back(tmp_path):
    replay = make(tmp_path, capacity=40)
    fill(replay, 0, 50)
    replay.save()
    other = make(tmp_path, capacity=40)
    other.load()
    assert all_items(other) == all_items(replay) and other.queued == 0
    smaller = make(tmp_path, capacity=11)
    smaller.load()
    assert all_items(smaller) == all_items(replay)[-11:]
    longer = Replay(12, 40, tmp_path, chunksize=3)
    longer.load()
    assert len(longer) > 0
    counts = longer.sample(100)["count"]
    assert counts.shape == (100, 12) and (np.diff(counts, axis=1) == 1).all()
    before = len(files(tmp_path))
    smaller.save()
    assert len(files(tmp_path)) < before, "what no item reaches is deleted"


def test_another_selector_length_and_chunksize_after_a_restart(tmp_path, caplog):
    replay = make(tmp_path, online=True, continue_streams=True)
    fill(replay, 0, 50)
    state = replay.save()
    other = Replay(
        9, 60, tmp_path, 3, online=True, continue_streams=True, selector=Prioritized(seed=1)
    )
    other.load(state)
    assert ["Uniform" in text and "Prioritized" in text for text in warnings_of(caplog)] == [True]
    fill(other, 50, 70)
    assert len(other) == 60 and other.queued > 0
    for _ in range(20):
        counts = other.sample(9)["count"]
        assert counts.shape == (9, 9) and (np.diff(counts, axis=1) == 1).all()
    other.load(other.save())
    assert len(warnings_of(caplog)) == 1


def test_other_directory_is_read_and_the_own_one_written(tmp_path):
    replay = make(tmp_path / "a")
    fill(replay, 0, 20)
    state = replay.save()
    other = make(tmp_path / "b")
    other.load(state, directory=tmp_path / "a")
    assert len(other) == len(replay)
    other.save()
    assert files(tmp_path / "b") == files(tmp_path / "a")


def test_without_directory_nothing_is_written():
    replay = make(None)
    fill(replay, 0, 20)
    state = replay.save()
    replay.load(state)
    assert len(replay) == 0
    fill(replay, 0, 20)
    assert len(replay) == 32


def test_empty_replay(tmp_path):
    state = make(tmp_path / "x").save()
    other = make(tmp_path / "x")
    other.load(state)
    other.load()
    assert len(other) == 0
    make(tmp_path / "missing").load()


def test_saving_often_neither_multiplies_nor_reserves(tmp_path):
    replay = make(tmp_path, capacity=100)
    for count in range(160):
        fill(replay, count, count + 1)
        replay.save()
        stats = replay.stats()
        whole = [name for name in files(tmp_path) if name.endswith(".npz")]
        assert len(whole) == stats["chunks"] <= 100 // CHUNK + 2 * 2
        assert len(files(tmp_path)) <= len(whole) + 2 * 4  # Parts of the two open chunks.
        assert stats["ram_gb"] * 1024**3 == stats["chunks"] * CHUNK * (replay.schema.step_bytes + 8)
    other = make(tmp_path, capacity=100)
    other.load()
    assert all_items(other) == all_items(replay)
    assert other.stats()["ram_gb"] <= stats["ram_gb"]


def test_only_what_changed_is_written(tmp_path):
    replay = make(tmp_path)
    fill(replay, 0, 20, workers=1)
    replay.save()
    stamps = {name: os.stat(tmp_path / name).st_mtime_ns for name in files(tmp_path)}
    inodes = {name: os.stat(tmp_path / name).st_ino for name in files(tmp_path)}
    replay.save()
    assert {name: os.stat(tmp_path / name).st_mtime_ns for name in files(tmp_path)} == stamps
    data = replay.sample(1)
    while data["count"][0, -1] >= CHUNK:
        data = replay.sample(1)
    replay.update({"stepid": data["stepid"], "latent": data["latent"]})
    replay.save()
    changed = [x for x in files(tmp_path) if os.stat(tmp_path / x).st_ino != inodes.get(x)]
    assert changed == files(tmp_path)[:1]
    stamps = {name: os.stat(tmp_path / name).st_mtime_ns for name in files(tmp_path)}
    replay.load()
    replay.save()
    assert {name: os.stat(tmp_path / name).st_mtime_ns for name in files(tmp_path)} == stamps


def test_saving_often_writes_in_proportion_to_what_is_added(tmp_path, monkeypatch):
    """Also while latents of the newest steps are written back before each save."""
    written = []
    replace = os.replace

    def counting(source, target):
        written.append(os.stat(source).st_size)
        replace(source, target)

    monkeypatch.setattr(os, "replace", counting)
    replay = make(tmp_path, chunksize=512, online=True)
    for count in range(0, 500, 5):
        fill(replay, count, count + 5, workers=1)
        data = replay.sample(1)
        replay.update({"stepid": data["stepid"], "latent": data["latent"]})
        replay.save()
    assert len(files(tmp_path)) <= 1 + 32
    # Writing the open chunk anew each time would take 50 times its size.
    assert sum(written) < 12 * 500 * replay.schema.step_bytes
    other = make(tmp_path)
    other.load()
    assert all_items(other) == all_items(replay)
    same_fields(other, replay)


def same_fields(one, other):
    for mine, theirs in zip(
        one._streams.chunks.values(), other._streams.chunks.values(), strict=True
    ):
        assert mine.uuid == theirs.uuid and mine.length == theirs.length
        for key, value in mine.fields.items():
            np.testing.assert_array_equal(value[: mine.length], theirs.fields[key][: mine.length])


def test_parts_hold_added_steps_and_new_values_of_older_ones(tmp_path):
    replay = make(tmp_path, chunksize=64)
    fill(replay, 0, 30, workers=1)
    replay.save()
    for start in (30, 33, 36):
        data = replay.sample(1)
        replay.update({"stepid": data["stepid"], "deter": -data["deter"] - 1})
        fill(replay, start, start + 3, workers=1)
        state = replay.save()
    endings = sorted(name.rpartition(".")[2] for name in files(tmp_path))
    assert endings == ["npz", "part", "part", "part"]
    other = make(tmp_path, continue_streams=True)
    other.load(state)
    same_fields(other, replay)
    # What is not written stays as it is; what is, is written anew, without the old parts.
    other.save()
    assert len(files(tmp_path)) == 4
    fill(other, 39, 41, workers=1)
    other.save()
    assert len(files(tmp_path)) == 1
    last = make(tmp_path)
    last.load()
    same_fields(last, other)


def test_parts_of_an_older_file_do_not_count(tmp_path):
    """As after a crash between writing the file anew and deleting its parts."""
    replay = make(tmp_path, chunksize=64)
    fill(replay, 0, 30, workers=1)
    replay.save()
    fill(replay, 30, 33, workers=1)
    replay.save()
    (old,) = tmp_path.glob("*.part")
    content = old.read_bytes()
    data = replay.sample(100)
    replay.update({"stepid": data["stepid"], "deter": -data["deter"]})
    replay.save()
    assert not list(tmp_path.glob("*.part"))
    old.write_bytes(content)
    other = make(tmp_path)
    other.load()
    same_fields(other, replay)


def test_a_damaged_part_is_a_damaged_file(tmp_path, caplog):
    replay = make(tmp_path, chunksize=64)
    fill(replay, 0, 30, workers=2)
    replay.save()
    fill(replay, 30, 33, workers=2)
    replay.save()
    part = min(tmp_path.glob("*.part"))
    part.write_bytes(part.read_bytes()[:-200])
    other = make(tmp_path)
    other.load()
    assert len(other) == len(replay) // 2
    assert len(warnings_of(caplog)) == 1 and part.name in caplog.text


def test_what_changes_during_a_save_is_in_the_next(tmp_path, monkeypatch):
    replay = make(tmp_path)
    fill(replay, 0, 12, workers=1)
    data = replay.sample(100)
    data = {"stepid": data["stepid"], "deter": -data["deter"]}

    def write_and_update(*args):
        write_chunk(*args)
        replay.update(data)

    with monkeypatch.context() as patch:
        patch.setattr("embodied.core.replay.folder.write_chunk", write_and_update)
        replay.save()
    replay.save()
    other = make(tmp_path)
    other.load()
    found = other.sample(100)
    assert (found["deter"][..., 0] == -found["count"].astype(ml_dtypes.bfloat16)).all()


def test_a_file_that_vanished_is_written_again(tmp_path):
    replay = make(tmp_path / "a")
    fill(replay, 0, 20)
    replay.save()
    names = files(tmp_path / "a")
    for name in names:
        os.unlink(tmp_path / "a" / name)
    (tmp_path / "a").rmdir()
    replay.save()
    assert files(tmp_path / "a") == names


def test_only_own_files_are_deleted(tmp_path):
    stranger = make(tmp_path)
    fill(stranger, 0, 20)
    stranger.save()
    theirs = files(tmp_path)
    (tmp_path / "notes.txt").write_text("keep")
    (tmp_path / "half.npz.tmp").write_text("left by a run that was killed")
    (tmp_path / "folder.npz.tmp").mkdir()
    replay = make(tmp_path, capacity=1)
    fill(replay, 0, 50)
    replay.save()
    assert set(theirs) | {"notes.txt"} < set(files(tmp_path))
    assert [x.name for x in tmp_path.iterdir() if x.name.endswith(".tmp")] == ["folder.npz.tmp"]


def damage(path, kind):
    data = path.read_bytes()
    if kind == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif kind == "random":
        path.write_bytes(np.random.default_rng(0).bytes(len(data)))
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "flipped":  # Within the largest array, which only reading it all reveals.
        with zipfile.ZipFile(path) as archive:
            offset = archive.getinfo("deter.npy").header_offset
        path.write_bytes(data[: offset + 500] + b"\xff\x01" + data[offset + 502 :])
    elif kind == "gone":
        path.unlink()


@pytest.mark.parametrize("kind", ["truncated", "random", "empty", "flipped", "gone"])
@pytest.mark.parametrize("with_state", [True, False])
def test_damaged_chunks_are_left_out_with_one_warning_each(tmp_path, caplog, kind, with_state):
    replay = make(tmp_path, online=True)
    fill(replay, 0, 60, workers=1)
    state = replay.save()
    for index in (2, 5):
        damage(tmp_path / files(tmp_path)[index], kind)
        if kind == "gone":
            break
    other = make(tmp_path, online=True)
    other.load(state if with_state else None)
    messages = warnings_of(caplog)
    assert len(messages) == (0 if kind == "gone" else 2)
    assert len(set(messages)) == len(messages)
    bad = {*range(16, 24)} if kind == "gone" else {*range(16, 24), *range(40, 48)}
    expected = [start for start in range(56) if not bad & {*range(start, start + LENGTH)}]
    assert all_items(other) == expected
    counts = other.sample(300)["count"]
    assert (np.diff(counts, axis=1) == 1).all() and {*counts[:, 0].tolist()} == {*expected}
    fill(other, 60, 80, workers=1)
    other.save()
    third = make(tmp_path)
    third.load()
    assert all_items(third) == all_items(other)


def test_foreign_files_are_left_alone(tmp_path, caplog):
    replay = make(tmp_path)
    fill(replay, 0, 20)
    replay.save()
    np.savez(tmp_path / "foreign.npz", x=np.zeros(3))
    name = files(tmp_path)[0]
    (tmp_path / "copy.npz").write_bytes((tmp_path / name).read_bytes())
    (tmp_path / "readme.txt").write_text("hello")
    other = make(tmp_path)
    other.load()
    assert len(warnings_of(caplog)) == 2
    assert all_items(other) == all_items(replay)
    other.save()
    assert {"foreign.npz", "copy.npz", "readme.txt"} < set(files(tmp_path))


@pytest.mark.parametrize("way", ["state", "steps", "files"])
def test_other_schema_is_refused_with_the_difference(tmp_path, way):
    replay = make(tmp_path)
    fill(replay, 0, 20)
    replay.save()
    other = make(tmp_path)
    for count in range(20):
        other.add({**make_step(count), "deter": np.zeros(300, np.float32), "new": np.int8(0)})
    state = other.save()
    if way != "steps":
        other = make(tmp_path)
    with pytest.raises(SchemaError) as info:
        other.load(state if way == "state" else None)
    words = str(info.value)
    if way == "files":  # The newest file decides what is expected.
        assert "key 'deter': got float32(300,), expected bfloat16(200,)" in words
        assert "key 'new': got int8(), expected nothing" in words
    else:
        assert "key 'deter': got bfloat16(200,), expected float32(300,)" in words
        assert "key 'new': got nothing, expected int8()" in words
    assert str(tmp_path) in words and "new folder" in words


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_floats_are_loaded_as_what_the_run_computes_in(tmp_path, dtype):
    replay = make(tmp_path)
    fill(replay, 0, 20)
    state = replay.save()
    other = make(tmp_path, continue_streams=True)
    other.load_floats_as({"latent": dtype, "deter": dtype, "count": "float32", "unknown": dtype})
    other.load(state)
    assert all_items(other) == all_items(replay)
    for count in range(20, 40):  # As the first run, and as one that computes in another dtype.
        step = make_step(count)
        step["latent" if count % 2 else "deter"] = (
            step["latent"][:1].repeat(4 if count % 2 else 200).astype(np.float32)
        )
        other.add(step, 0)
    data = other.sample(64)
    assert data["latent"].dtype == data["deter"].dtype == dtype
    assert data["count"].dtype == np.int64
    for key in ("latent", "deter"):
        rounded = data["count"].astype(ml_dtypes.bfloat16).astype(dtype)
        np.testing.assert_array_equal(data[key][..., 0], rounded)
    fresh = np.full((64, 5, 4), 7, ml_dtypes.bfloat16)
    other.update({"stepid": data["stepid"], "latent": fresh})
    other.save()
    # The folder now has files of both widths; who expects nothing gets those of the newest.
    last = make(tmp_path)
    last.load()
    assert all_items(last) == all_items(other)
    assert str(last.schema.to_json()["latent"][0]) == dtype
    assert (last.sample(8)["latent"] == 7).any()


def test_added_steps_must_fit_what_was_loaded(tmp_path):
    replay = make(tmp_path)
    fill(replay, 0, 20)
    replay.save()
    other = make(tmp_path)
    other.load()
    with pytest.raises(SchemaError, match="'count' of worker 0 as float32"):
        other.add({**make_step(0), "count": np.float32(0)})


def test_state_of_another_version_is_refused(tmp_path):
    replay = make(tmp_path)
    state = {**replay.save(), "version": 99}
    with pytest.raises(ValueError, match="version 99, expected 1"):
        replay.load(state)


def test_write_errors_surface_and_data_stay_unsaved(tmp_path, monkeypatch):
    replay = make(tmp_path / "a")
    fill(replay, 0, 20)
    replay.save()
    before = {name: (tmp_path / "a" / name).read_bytes() for name in files(tmp_path / "a")}
    fill(replay, 20, 40)

    def full(*args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("embodied.core.replay.folder.write_chunk", full)
        for _ in range(2):
            with pytest.raises(ReplaySaveError, match=r"No space left on device.*unsaved"):
                replay.save()
    after = {name: (tmp_path / "a" / name).read_bytes() for name in files(tmp_path / "a")}
    assert after == before, "what was saved before is whole"
    replay.save()
    other = make(tmp_path / "a")
    other.load()
    assert all_items(other) == all_items(replay)
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    replay = make(blocked)
    fill(replay, 0, 20)
    with pytest.raises(ReplaySaveError, match="writable folder"):
        replay.save()
