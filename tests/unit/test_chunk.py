"""Layout of steps, chunks, and chunk files."""

import json
import random
import threading
import zipfile

import ml_dtypes
import numpy as np
import pytest

from embodied.core.replay.chunk import Chunk
from embodied.core.replay.chunk_file import (
    ChunkFileError,
    ChunkHeader,
    read_chunk,
    write_chunk,
)
from embodied.core.replay.schema import Schema, SchemaError, dtype_of, has_nan, storage_dtype
from embodied.core.space import Space

ENTRIES = {
    "flag": (bool, ()),
    "half": (ml_dtypes.bfloat16, (3,)),
    "pixel": (np.uint8, (5,)),
    "deter": (ml_dtypes.bfloat16, (200,)),
    "reward": (np.float32, ()),
    "vector": (np.float32, (2, 3)),
    "count": (np.int64, ()),
    "image": (np.uint8, (10, 10, 3)),
    "log/reward": (np.float32, ()),
}
UUID = bytes(range(16))


def random_step(rng):
    step = {}
    for key, (dtype, shape) in ENTRIES.items():
        step[key] = np.asarray(rng.integers(0, 2 if dtype is bool else 99, shape)).astype(dtype)
    return step


def filled_chunk(length=7, size=9):
    schema = Schema(ENTRIES)
    chunk, rng = Chunk(schema, 3, size, UUID, "20200101"), np.random.default_rng(0)
    steps = [random_step(rng) for _ in range(length)]
    for serial, step in enumerate(steps):
        assert chunk.write(*schema.pack(step, 0), 5 * serial)
    return chunk, steps


def header_of(chunk, successor=None):
    chunk.successor = successor
    return ChunkHeader.of(chunk)


def test_layout_is_aligned_and_tight():
    schema = Schema(ENTRIES)
    assert {field.key for field in schema.columns} == {"deter", "image"}
    end = 0
    for field in schema.packed:
        assert field.offset == end and field.offset % field.dtype.itemsize == 0
        end += field.nbytes
    assert (schema.packed_bytes, schema.stepid_offset) == (end, end)
    assert end == 1 + 6 + 5 + 4 + 24 + 8
    assert schema.record_bytes % 8 == 0 and 0 <= schema.record_bytes - end - 20 < 8
    assert schema.step_bytes == schema.record_bytes + 400 + 300


def test_schema_json_and_differences():
    schema = Schema(ENTRIES)
    copy = Schema.from_json(json.loads(json.dumps(schema.to_json())))
    assert schema.difference(copy) is None and copy.fields == schema.fields
    other = Schema({**ENTRIES, "reward": (np.float64, ()), "new": (np.int8, (2,))})
    text = schema.difference(other)
    assert "key 'new': got int8(2,), expected nothing" in text
    assert "key 'reward': got float64(), expected float32()" in text
    spaces = {key: Space(dtype, shape) for key, (dtype, shape) in ENTRIES.items()}
    assert Schema.from_spaces(spaces).difference(schema) is None


def test_dtype_names():
    for name in ("float32", "bfloat16", "bool", "int16", "float8_e5m2"):
        assert dtype_of(name).name == name
    assert storage_dtype(dtype_of("bfloat16")) == np.uint16
    assert storage_dtype(dtype_of("float8_e5m2")) == np.uint8
    assert storage_dtype(np.dtype(np.float16)) == np.float16
    with pytest.raises(SchemaError, match="'float33'"):
        dtype_of("float33")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_has_nan(dtype):
    for repeats in (1, 40, 1000):
        values = np.array([1, -np.inf, 3, np.inf, 0] * repeats, dtype)
        assert not has_nan(values) and not has_nan(values[:0])
        for place in (0, 3, len(values) // 3, len(values) - 1):
            for nan in (np.nan, -np.nan):
                bad = values.copy()
                bad[place] = nan
                assert has_nan(bad)


def test_chunk_reads_what_was_written():
    chunk, steps = filled_chunk()
    assert chunk.length == 7
    values = chunk.export(7)
    for key in chunk.fields:
        np.testing.assert_array_equal(values[key], np.stack([step[key] for step in steps]))
        assert values[key].flags.c_contiguous
    assert "log/reward" not in values
    np.testing.assert_array_equal(chunk.serials[:7], np.arange(7) * 5)


@pytest.mark.parametrize("key", ["half", "deter", "reward", "vector"])
def test_chunk_refuses_nan_in_any_float(key):
    chunk, steps = filled_chunk()
    value = np.array(steps[0][key])
    value[(-1,) * value.ndim] = np.nan
    version = chunk.version
    assert not chunk.write(*chunk.schema.pack({**steps[0], key: value}, 0), 99)
    assert (chunk.length, chunk.version) == (7, version)
    with pytest.raises(SchemaError, match=f"NaN in an update of key '{key}'"):
        chunk.overwrite(2, 3, {key: value[None]})
    np.testing.assert_array_equal(chunk.fields[key][2], steps[2][key])


def test_copying_rows_waits_for_who_changes_them():
    """Otherwise a step could be read half old and half new."""
    chunk, _ = filled_chunk()
    record = np.empty((2, chunk.schema.record_bytes), np.uint8)
    columns = [np.empty((2, *field.shape), field.dtype) for field in chunk.schema.columns]
    works = [
        lambda: chunk.read(0, 2, record, columns),
        lambda: chunk.export(2),
        lambda: chunk.overwrite(0, 1, {"reward": np.zeros(1, np.float32)}),
    ]
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    with chunk.lock:
        for thread in threads:
            thread.start()
            thread.join(0.05)
            assert thread.is_alive()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_overwrite_marks_the_chunk_as_changed():
    chunk, steps = filled_chunk()
    chunk.saved_version = chunk.version
    chunk.overwrite(2, 4, {"reward": np.array([-1, -2], np.float32)})
    assert chunk.version != chunk.saved_version
    assert chunk.fields["reward"][1:5].tolist() == [steps[1]["reward"], -1, -2, steps[4]["reward"]]


def test_file_round_trip(tmp_path):
    chunk, _ = filled_chunk()
    header = header_of(chunk, b"\xab" * 16)
    write_chunk(tmp_path, header, chunk.export(7), chunk.serials[:7])
    assert [path.name for path in tmp_path.iterdir()] == [header.filename]
    path = tmp_path / header.filename
    loaded, arrays, serials = read_chunk(path)
    assert loaded == header
    assert (loaded.worker, loaded.successor) == (3, "ab" * 16)
    np.testing.assert_array_equal(serials, chunk.serials[:7])
    for key, value in chunk.export(7).items():
        assert arrays[key].dtype == value.dtype
        np.testing.assert_array_equal(arrays[key], value)
    assert read_chunk(path, ["reward"])[1].keys() == {"reward"}
    assert read_chunk(path, ())[1] == {}
    with np.load(path) as file:  # Without pickle, by NumPy alone.
        np.testing.assert_array_equal(file["vector"], chunk.export(7)["vector"])
        assert file["deter"].dtype == np.uint16


def test_a_failed_write_leaves_the_old_file(tmp_path):
    chunk, _ = filled_chunk()
    header = header_of(chunk)
    write_chunk(tmp_path, header, chunk.export(7), chunk.serials[:7])
    before = (tmp_path / header.filename).read_bytes()

    with pytest.raises(OSError, match="No space"):
        write_chunk(tmp_path, header, {"a": _Unwritable()}, chunk.serials[:7])
    assert [path.name for path in tmp_path.iterdir()] == [header.filename]
    assert (tmp_path / header.filename).read_bytes() == before


class _Unwritable:
    dtype = np.dtype(np.float32)

    def view(self, dtype):
        raise OSError(28, "No space left on device")


def test_every_damage_is_noticed(tmp_path):
    chunk, _ = filled_chunk()
    header = header_of(chunk)
    write_chunk(tmp_path, header, chunk.export(7), chunk.serials[:7])
    path = tmp_path / header.filename
    sound = path.read_bytes()
    reference = read_chunk(path)
    rng = random.Random(0)
    for length in (0, 1, 50, len(sound) // 2, len(sound) - 1):
        path.write_bytes(sound[:length])
        with pytest.raises(ChunkFileError, match=path.name):
            read_chunk(path)
        with pytest.raises(ChunkFileError):
            read_chunk(path, keys=())
    path.write_bytes(rng.randbytes(len(sound)))
    with pytest.raises(ChunkFileError):
        read_chunk(path)
    unnoticed = 0
    for _ in range(600):
        place, damaged = rng.randrange(len(sound)), bytearray(sound)
        damaged[place] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            found = read_chunk(path)
        except ChunkFileError:
            continue
        # Some bytes, such as dates, mean nothing; what is read is right then.
        unnoticed += 1
        assert found[0] == reference[0]
        np.testing.assert_array_equal(found[2], reference[2])
        for key, value in reference[1].items():
            np.testing.assert_array_equal(found[1][key], value)
    assert unnoticed < 200


@pytest.mark.parametrize(
    "change",
    [{"format": "x"}, {"version": 9}, {"length": 0}, {"length": 99}, {"uuid": "zz"}, {"more": 1}],
)
def test_other_archives_are_no_chunk_files(tmp_path, change):
    chunk, _ = filled_chunk()
    path = tmp_path / "a.npz"
    meta = {"format": "embodied-replay-chunk", "version": 1, **vars(header_of(chunk)), **change}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("meta.json", json.dumps(meta))
    with pytest.raises(ChunkFileError, match=r"a\.npz is no readable chunk file"):
        read_chunk(path, keys=())
    np.savez(path, x=np.zeros(3))
    with pytest.raises(ChunkFileError):
        read_chunk(path)
