"""Checkpoints: what can be stored, retention, damaged folders, failing disks."""

import hashlib
import json
import logging
import os
import shutil
import subprocess
import threading

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from embodied.core import checkpoint as checkpoint_module
from embodied.core.checkpoint import Checkpoint, Deferred
from embodied.core.snapshot import DamagedCheckpointError
from embodied.core.state_tree import dtype_from_name, dtype_name, flatten, unflatten


class Box:
    """An object whose state is whatever was put into it."""

    def __init__(self, state=None):
        self.state = state

    def save(self):
        return self.state

    def load(self, state):
        self.state = state


def make(directory, state=None, **kwargs):
    checkpoint = Checkpoint(directory, **kwargs)
    box = Box(state)
    checkpoint.register("box", box)
    return checkpoint, box


def save(checkpoint, step):
    checkpoint.save(step)
    return checkpoint.wait()


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def steps(directory):
    return [int(name.split("step")[1]) for name in names(directory) if "step" in name]


def assert_same(left, right):
    assert type(left) is type(right)
    if isinstance(left, dict):
        assert list(left) == list(right)
        for key in left:
            assert_same(left[key], right[key])
    elif isinstance(left, (list, tuple)):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            assert_same(one, other)
    elif isinstance(left, (np.ndarray, np.generic)):
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        assert left.tobytes() == right.tobytes()
    else:
        assert left == right or (left != left and right != right)


STATE = {
    "params": {
        "enc/kernel": np.arange(6, dtype=np.float32).reshape(2, 3),
        "empty": np.zeros((0, 3)),
    },
    "bfloat16": np.array([1.5, -2.0, 3e38], ml_dtypes.bfloat16),
    "transposed": np.arange(6).reshape(2, 3).T,
    "big endian": np.arange(3, dtype=">i4"),
    "texts": np.array(["a", "äöü"]),
    "zero dim": np.array(7, np.uint8),
    "scalar": np.float32(0.1),
    "flags": [True, None, np.bool_(False)],
    "tuple": (1, 2.5, "x", (), []),
    "generator": np.random.default_rng(3).bit_generator.state,
    "floats": [float("nan"), float("inf"), -float("inf")],
    "bytes": b"\x00\xff",
    3: {(1, "a"): "keys that are no texts", b"k": 1},
}


def test_state_round_trip(tmp_path):
    checkpoint, _ = make(tmp_path, STATE)
    assert save(checkpoint, 5)
    other, box = make(tmp_path)
    assert other.load().step == 5
    expected = dict(STATE, **{"big endian": STATE["big endian"].astype("<i4")})
    assert_same(box.state, expected)
    box.state["params"]["enc/kernel"][0, 0] = 9  # Loaded arrays can be changed.


@given(
    npst.arrays(
        st.sampled_from(["f2", "f4", "f8", "i1", "u2", "i8", "?", "c8"]),
        npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    )
)
def test_flatten_round_trip(array):
    flat = flatten({"a": [array]})
    tree = json.loads(json.dumps(flat.tree))
    assert_same(unflatten(tree, flat.arrays), {"a": [array]})


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "int4"])
def test_extended_dtypes_have_names(name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    assert dtype_from_name(dtype_name(dtype)) == dtype


def test_arrays_are_not_shared_with_the_run():
    base = np.arange(4)
    flat = flatten({"view": base[:2]})
    base[0] = 7
    assert flat.arrays[0].tolist() == [0, 1]


@pytest.mark.parametrize("bad", [object(), np.array([object()]), {1, 2}, len])
def test_what_cannot_be_stored_is_named(bad):
    with pytest.raises(TypeError, match="'a/1'"):
        flatten({"a": [0, bad]})


@pytest.mark.parametrize("tree", [[1], {"array": 5}, {"code": "print"}, {"a": 1, "b": 2}])
def test_foreign_trees_are_refused(tree):
    with pytest.raises((ValueError, IndexError)):
        unflatten(tree, [])


@pytest.mark.parametrize("name", ["O", "|O", "object", "V8", "finfo"])
def test_foreign_dtypes_are_refused(name):
    with pytest.raises((ValueError, TypeError)):
        dtype_from_name(name)


def test_folder_holds_no_code_and_fits_sha256sum(tmp_path):
    checkpoint, _ = make(tmp_path, STATE, config={"run": {"steps": 10}})
    save(checkpoint, 12)
    assert names(tmp_path) == ["000001-step0000000012", "latest"]
    folder = tmp_path / "000001-step0000000012"
    assert (tmp_path / "latest").read_text() == folder.name
    assert names(folder) == ["0-box.bin", "SHA256SUMS", "manifest.json"]
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["step"] == 12
    assert manifest["config"] == {"run": {"steps": 10}}
    assert manifest["versions"]["numpy"] == np.__version__
    entries = {entry["path"]: entry for entry in manifest["objects"]["box"]["arrays"]}
    assert entries["params/enc/kernel"]["shape"] == [2, 3]
    assert entries["bfloat16"]["dtype"] == "bfloat16"
    assert all(entry["offset"] % 64 == 0 for entry in entries.values())
    if shutil.which("sha256sum"):
        subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=folder, check=True)


def test_keep_counts_by_completion_not_by_step(tmp_path):
    checkpoint, _ = make(tmp_path, 0, keep=2)
    for step in (10, 30, 20):
        save(checkpoint, step)
    assert names(tmp_path) == ["000002-step0000000030", "000003-step0000000020", "latest"]
    assert make(tmp_path)[0].load().step == 20


def test_names_and_clocks_do_not_matter(tmp_path):
    checkpoint, box = make(tmp_path, "old", keep=2)
    save(checkpoint, 1)
    box.state = "new"
    save(checkpoint, 2)
    (tmp_path / "000001-step0000000001").rename(tmp_path / "zzz")
    os.utime(tmp_path / "zzz", (2**31, 2**31))
    (tmp_path / "latest").unlink()
    other, box = make(tmp_path)
    other.load()
    assert box.state == "new"


def test_latest_can_be_turned_back(tmp_path):
    checkpoint, _ = make(tmp_path, 0, keep=3)
    for step in (1, 2, 3):
        save(checkpoint, step)
    (tmp_path / "latest").write_text("000002-step0000000002\n")
    assert make(tmp_path)[0].load().step == 2
    (tmp_path / "latest").write_text("gone")
    assert make(tmp_path)[0].load().step == 3


def test_keep_every_keeps_the_first_of_each_period(tmp_path):
    checkpoint, _ = make(tmp_path, 0, keep=1, keep_every=100)
    for step in (0, 50, 110, 150, 220, 230, 390):
        save(checkpoint, step)
    assert steps(tmp_path) == [110, 220, 390]


@pytest.mark.parametrize("kwargs", [{"keep": 0}, {"keep_every": -1}])
def test_retention_must_make_sense(tmp_path, kwargs):
    with pytest.raises(ValueError, match="at least one snapshot"):
        Checkpoint(tmp_path, **kwargs)


def _truncate(folder):
    path = folder / "0-box.bin"
    path.write_bytes(path.read_bytes()[:-3])


def _flip(folder):
    path = folder / "0-box.bin"
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)


def _cut_manifest(folder):
    path = folder / "manifest.json"
    path.write_text(path.read_text()[:40])


def _remove_blob(folder):
    (folder / "0-box.bin").unlink()


def _remove_sums(folder):
    (folder / "SHA256SUMS").unlink()


def _empty(folder):
    shutil.rmtree(folder)
    folder.mkdir()


@pytest.mark.parametrize(
    "damage", [_truncate, _flip, _cut_manifest, _remove_blob, _remove_sums, _empty]
)
def test_damaged_snapshots_are_skipped_with_one_warning(tmp_path, caplog, damage):
    checkpoint, box = make(tmp_path, np.arange(3), keep=2)
    save(checkpoint, 1)
    save(checkpoint, 2)
    damage(tmp_path / "000002-step0000000002")
    other, box = make(tmp_path, keep=2)
    with caplog.at_level(logging.WARNING):
        assert other.load_or_save(9)
        assert box.state.tolist() == [0, 1, 2]
        for step in (3, 4, 5):
            assert save(other, step)
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 1
    assert "000002-step0000000002" in messages[0]
    # The damaged folder is left to the user and counts for nothing, unless its manifest is whole.
    assert set(names(tmp_path)) - {"000002-step0000000002"} == {
        "000004-step0000000004",
        "000005-step0000000005",
        "latest",
    }


def test_only_damaged_snapshots_is_an_error(tmp_path):
    checkpoint, _ = make(tmp_path, np.arange(3))
    save(checkpoint, 1)
    _flip(tmp_path / "000001-step0000000001")
    with pytest.raises(DamagedCheckpointError, match="move them away"):
        make(tmp_path)[0].load()
    with pytest.raises(DamagedCheckpointError, match="does not match its checksum"):
        make(tmp_path)[0].load(tmp_path / "000001-step0000000001")


def test_nothing_is_loaded_before_everything_is_read(tmp_path):
    checkpoint = Checkpoint(tmp_path)
    checkpoint.register("a", Box(1))
    checkpoint.register("b", Box(np.arange(3)))
    save(checkpoint, 1)
    path = tmp_path / "000001-step0000000001" / "1-b.bin"
    path.write_bytes(b"")
    box = Box("untouched")
    other = Checkpoint(tmp_path)
    other.register("a", box)
    other.register("b", Box())
    with pytest.raises(DamagedCheckpointError):
        other.load()
    assert box.state == "untouched"
    other.load(keys=["a"])
    assert box.state == 1


def test_load_from_run_folder_checkpoint_folder_or_snapshot(tmp_path):
    checkpoint, _ = make(tmp_path / "ckpt", {"x": 1})
    save(checkpoint, 3)
    for path in (tmp_path, tmp_path / "ckpt", tmp_path / "ckpt" / "000001-step0000000003"):
        snapshot, states = Checkpoint(tmp_path / "elsewhere").read(path)
        assert (snapshot.step, states) == (3, {"box": {"x": 1}})
    assert not (tmp_path / "elsewhere").exists()
    with pytest.raises(FileNotFoundError, match="run folder"):
        Checkpoint(tmp_path).read(tmp_path / "nowhere")
    with pytest.raises(KeyError, match="agent"):
        Checkpoint(tmp_path).read(tmp_path, ["agent"])


def test_exists_and_load_or_save(tmp_path):
    checkpoint, _ = make(tmp_path, "first")
    assert not checkpoint.exists()
    assert not checkpoint.load_or_save(0)
    assert checkpoint.wait()
    assert checkpoint.exists()
    other, box = make(tmp_path, "second")
    assert other.load_or_save(7)
    assert box.state == "first"
    assert steps(tmp_path) == [0]


def test_leftovers_of_killed_runs_are_removed_but_only_by_owners(tmp_path):
    checkpoint, _ = make(tmp_path, 1)
    save(checkpoint, 1)
    (tmp_path / "tmp-000002-step0000000002").mkdir()
    (tmp_path / "tmp-000002-step0000000002" / "0-box.bin").write_bytes(b"half")
    (tmp_path / "tmp-latest").write_text("")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "tmp-link").symlink_to(tmp_path / "elsewhere")
    make(tmp_path)[0].load()
    assert len(names(tmp_path)) == 6
    make(tmp_path)[0].load_or_save(3)
    assert names(tmp_path) == ["000001-step0000000001", "elsewhere", "latest"]


def test_names_must_differ(tmp_path):
    checkpoint, _ = make(tmp_path)
    with pytest.raises(ValueError, match="'box' twice"):
        checkpoint.register("box", Box())


def test_failed_write_is_reported_and_the_next_save_succeeds(tmp_path, monkeypatch, caplog):
    checkpoint, _ = make(tmp_path, np.arange(3))
    save(checkpoint, 1)
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):

        def full(descriptor):
            raise OSError(28, "No space left on device")

        patch.setattr(os, "fsync", full)
        assert not save(checkpoint, 2)
    assert "step 2 could not be completed" in caplog.text
    assert "No space left" in caplog.text
    assert names(tmp_path) == ["000001-step0000000001", "latest"]
    assert make(tmp_path)[0].load().step == 1
    assert save(checkpoint, 3)
    assert make(tmp_path)[0].load().step == 3


def test_object_whose_own_files_fail_is_reported(tmp_path, caplog):
    checkpoint, box = make(tmp_path, 1)
    save(checkpoint, 1)

    def fail():
        raise OSError("Read-only file system")

    box.save = fail
    with caplog.at_level(logging.WARNING):
        assert not save(checkpoint, 2)
    assert "Read-only" in caplog.text
    assert steps(tmp_path) == [1]


def test_removed_folder_comes_back_with_the_next_save(tmp_path):
    checkpoint, _ = make(tmp_path / "run" / "ckpt", 1)
    save(checkpoint, 1)
    shutil.rmtree(tmp_path / "run")
    assert save(checkpoint, 2)
    assert steps(tmp_path / "run" / "ckpt") == [2]


def test_folder_that_is_removed_while_it_is_written_comes_back(tmp_path, monkeypatch):
    folder = tmp_path / "run" / "ckpt"
    checkpoint, _ = make(folder, 1)
    save(checkpoint, 1)
    with monkeypatch.context() as patch:
        patch.setattr(
            checkpoint_module, "sync_folder", lambda path: shutil.rmtree(tmp_path / "run")
        )
        save(checkpoint, 2)
    assert save(checkpoint, 3)
    assert steps(folder) == [3]


def test_mistakes_in_the_thread_are_raised(tmp_path, monkeypatch):
    checkpoint, _ = make(tmp_path, 1)

    def broken(*args):
        raise ZeroDivisionError

    monkeypatch.setattr(checkpoint_module, "write_snapshot", broken)
    checkpoint.save(1)
    with pytest.raises(ZeroDivisionError):
        checkpoint.wait()
    assert checkpoint.wait()


def test_saving_happens_beside_the_run_with_states_of_one_moment(tmp_path, monkeypatch):
    release = threading.Event()
    original = checkpoint_module.write_snapshot

    def slow(*args):
        assert release.wait(60)
        return original(*args)

    monkeypatch.setattr(checkpoint_module, "write_snapshot", slow)
    state = {"count": 1}
    checkpoint, _ = make(tmp_path, state)
    checkpoint.save(1)
    assert checkpoint.busy
    state["count"] = 2
    release.set()
    assert checkpoint.wait()
    assert not checkpoint.busy
    other, box = make(tmp_path)
    other.load()
    assert box.state == {"count": 1}


def test_public_pickles_are_not_read(tmp_path):
    folder = tmp_path / "20240101T000000F000000"
    folder.mkdir()
    (folder / "agent.pkl").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    (folder / "done").write_bytes(b"")
    (tmp_path / "latest").write_text(folder.name)
    before = hashlib.sha256((folder / "agent.pkl").read_bytes()).hexdigest()
    with pytest.raises(FileNotFoundError):
        make(tmp_path)[0].load()
    assert hashlib.sha256((folder / "agent.pkl").read_bytes()).hexdigest() == before


def test_deferred_files_are_written_in_the_thread_before_the_snapshot_is_complete(tmp_path):
    started, proceed = threading.Event(), threading.Event()

    class Large:
        def save(self):
            return Deferred({"value": 3}, self.write)

        def write(self):
            started.set()
            assert proceed.wait(10)
            (tmp_path / "large").write_text("all of it")

        def load(self, state):
            self.loaded = state

    checkpoint = Checkpoint(tmp_path / "ckpt")
    checkpoint.register("large", Large())
    checkpoint.save(1)
    assert started.wait(10)
    assert checkpoint.busy and not checkpoint.exists()
    proceed.set()
    assert checkpoint.wait()
    assert (tmp_path / "large").read_text() == "all of it"
    other = Large()
    checkpoint = Checkpoint(tmp_path / "ckpt")
    checkpoint.register("large", other)
    checkpoint.load()
    assert other.loaded == {"value": 3}


def test_the_best_snapshot_is_kept_until_there_is_a_better_one(tmp_path):
    checkpoint, box = make(tmp_path, state=1)
    assert checkpoint.best_score() == -np.inf
    for step, score in enumerate([None, 2.5, None, None, 7.0, None]):
        box.state = step
        checkpoint.save(step, score)
        assert checkpoint.wait()
        if step == 3:
            assert steps(tmp_path) == [1, 3]
            assert checkpoint.best_score() == 2.5
    assert steps(tmp_path) == [4, 5]
    assert make(tmp_path)[0].best_score() == 7
    assert [snapshot.step for snapshot in checkpoint.snapshots()] == [5, 4]
    reader, box = make(tmp_path / "reader")
    assert reader.load(tmp_path / "best").step == 4
    assert box.state == 4
