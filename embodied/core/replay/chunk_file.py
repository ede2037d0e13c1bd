"""Reading and writing one chunk as a file.

A chunk file is an uncompressed `.npz` archive that `numpy.load` opens: one array [steps, ...] per
key, the array `replay/serial`, and a text `meta.json`. Every member carries a checksum. Types that
NumPy does not know, such as bfloat16, are stored as unsigned integers of the same size; the schema
in `meta.json` has their names.

What has changed since a file was written can be in parts beside it, `NAME.TOKEN.1.part` and so
on, which are archives of the same kind: steps that were added as `added/KEY`, and new values of
older steps as `changed/KEY` with their rows in `rows`. They count only if the file has the same
token, so that a file which was written anew starts without parts, whatever is left of them.
"""

import contextlib
import io
import itertools
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from embodied.core.replay.chunk import Changes, Chunk
from embodied.core.replay.schema import Schema, dtype_of, storage_dtype

FORMAT = "embodied-replay-chunk"
VERSION = 1
SUFFIX = ".npz"
PART_SUFFIX = ".part"
TEMPORARY_SUFFIX = ".npz.tmp"
SERIAL_MEMBER = "replay/serial"

# Everything that opening an archive of random bytes can raise.
_DAMAGE = (
    OSError,
    EOFError,
    KeyError,
    ValueError,
    RuntimeError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
)


class ChunkFileError(ValueError):
    """A file is damaged, or it is not a chunk file."""


@dataclass(frozen=True)
class ChunkHeader:
    """What a chunk file says about its chunk.

    Attributes:
        uuid: Name of the chunk, 32 hexadecimal digits.
        created: Text that sorts by time of creation.
        worker: Worker that wrote the steps.
        size: Steps that the chunk has room for; its stream goes on in another one when full.
        length: Steps in the file.
        successor: UUID of the next chunk of the stream, empty if there was none.
        schema: Dtype name and shape per key.
        token: Names this file among those that the chunk has had; its parts have the same one.
    """

    uuid: str
    created: str
    worker: int
    size: int
    length: int
    successor: str
    schema: dict[str, Any]
    token: str = ""

    @classmethod
    def of(cls, chunk: Chunk) -> "ChunkHeader":
        """What the file of a chunk has to say at the moment."""
        return cls(
            uuid=chunk.uuid.hex(),
            created=chunk.created,
            worker=chunk.worker,
            size=chunk.size,
            length=chunk.length,
            successor=chunk.successor.hex() if chunk.successor else "",
            schema=chunk.schema.to_json(),
        )

    @property
    def filename(self) -> str:
        """Name of the file; it stays the same while the chunk grows."""
        return f"{self.created}-{self.uuid}{SUFFIX}"

    def part(self, number: int) -> str:
        """Name of the file of a part, counted from 1."""
        return f"{self.created}-{self.uuid}.{self.token}.{number}{PART_SUFFIX}"


def write_chunk(
    directory: Path, header: ChunkHeader, arrays: dict[str, np.ndarray], serials: np.ndarray
) -> None:
    """Write a chunk to a temporary name and rename it into place.

    Args:
        directory: An existing folder.
        header: What goes into `meta.json`.
        arrays: Contiguous array [length, ...] per key of the schema.
        serials: Serial numbers of the steps, int64 [length].

    Raises:
        OSError: If the file cannot be written; the previous one, if any, is as it was.
    """
    _write_archive(directory / header.filename, header, {**arrays, SERIAL_MEMBER: serials})


def write_part(
    directory: Path, number: int, header: ChunkHeader, changes: Changes, serials: np.ndarray
) -> None:
    """Write what has changed in a chunk since its file and the parts before were written.

    Args:
        directory: The folder of the file.
        number: Number of the part, counted from 1.
        header: What the file of the whole chunk would say now, with the token of that file.
        changes: What has changed.
        serials: Serial numbers of the steps that were added, int64 [added].

    Raises:
        OSError: If the part cannot be written.
    """
    members = {
        "rows": changes.rows,
        **{f"changed/{key}": value for key, value in changes.changed.items()},
        **{f"added/{key}": value for key, value in changes.added.items()},
        SERIAL_MEMBER: serials,
    }
    _write_archive(directory / header.part(number), header, members)


def part_paths(path: Path, header: ChunkHeader) -> Iterator[Path]:
    """Paths of the parts that a file has, in order."""
    for number in itertools.count(1):
        part = path.with_name(header.part(number))
        if not header.token or not part.exists():
            return
        yield part


def _write_archive(path: Path, header: ChunkHeader, members: dict[str, np.ndarray]) -> None:
    temporary = path.with_name(f"{path.name.removesuffix(SUFFIX)}{TEMPORARY_SUFFIX}")
    meta = {"format": FORMAT, "version": VERSION, **asdict(header)}
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("meta.json", json.dumps(meta, indent=1))
            for key, array in members.items():
                _write_array(archive, key, array)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def read_chunk(
    path: Path, keys: Collection[str] | None = None
) -> tuple[ChunkHeader, dict[str, np.ndarray], np.ndarray]:
    """Read a file with its parts and check them.

    Args:
        path: The file.
        keys: Which of the keys to read, all if None. Without any, only header and serial numbers
            are read, which is all that planning what to load needs.

    Returns:
        Header, read-only array [length, ...] per key, and serial numbers int64 [length].

    Raises:
        ChunkFileError: If the file or a part of it is damaged or is none of ours.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            header = _parse_header(archive)
            arrays = {}
            for key, (name, shape) in header.schema.items():
                if keys is not None and key not in keys:
                    continue
                dtype = dtype_of(name)
                stored = _read_array(archive, key, (header.length, *shape), storage_dtype(dtype))
                arrays[key] = stored.view(dtype)
            shape = (header.length,)
            serials = _read_array(archive, SERIAL_MEMBER, shape, np.dtype(np.int64))
    except _DAMAGE as error:
        raise ChunkFileError(_describe(path, error)) from error
    for part in part_paths(path, header):
        try:
            header, arrays, serials = _apply_part(part, header, arrays, serials)
        except _DAMAGE as error:
            raise ChunkFileError(_describe(part, error)) from error
    return header, arrays, serials


def _apply_part(
    path: Path, header: ChunkHeader, arrays: dict[str, np.ndarray], serials: np.ndarray
) -> tuple[ChunkHeader, dict[str, np.ndarray], np.ndarray]:
    """Read a part and put it into what was read before."""
    with zipfile.ZipFile(path) as archive:
        after = _parse_header(archive)
        if (after.uuid, after.token) != (header.uuid, header.token):
            raise ValueError("it belongs to another file")
        added = after.length - header.length
        new_serials = _read_array(archive, SERIAL_MEMBER, (added,), np.dtype(np.int64))
        rows = _read_rows(archive, header.length)
        merged = {}
        for key, before in arrays.items():
            shape, stored = before.shape[1:], storage_dtype(before.dtype)
            new = _read_array(archive, f"added/{key}", (added, *shape), stored)
            merged[key] = np.concatenate([before, new.view(before.dtype)])
            if f"changed/{key}.npy" in archive.namelist():
                values = _read_array(archive, f"changed/{key}", (len(rows), *shape), stored)
                merged[key][rows] = values.view(before.dtype)
    return after, merged, np.concatenate([serials, new_serials])


def _read_rows(archive: zipfile.ZipFile, length: int) -> np.ndarray:
    """Read which of the steps before a part have new values in it."""
    rows = _read_array(archive, "rows", None, np.dtype(np.int64))
    if len(rows) and not 0 <= rows.min() <= rows.max() < length:
        raise ValueError("rows that the file does not have")
    return rows


def _write_array(archive: zipfile.ZipFile, key: str, array: np.ndarray) -> None:
    stored = array.view(storage_dtype(array.dtype))
    head = io.BytesIO()
    layout = {"descr": stored.dtype.str, "fortran_order": False, "shape": stored.shape}
    np.lib.format.write_array_header_1_0(head, layout)
    with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
        member.write(head.getvalue())
        member.write(stored.reshape(-1).view(np.uint8).data)


def _read_array(
    archive: zipfile.ZipFile, key: str, shape: tuple[int, ...] | None, dtype: np.dtype
) -> np.ndarray:
    """Read an array and check it; without a shape it has one dimension of any length."""
    data = archive.read(f"{key}.npy")
    head = io.BytesIO(data)
    if np.lib.format.read_magic(head) != (1, 0):
        raise ValueError(f"array header of {key}")
    found = np.lib.format.read_array_header_1_0(head)
    shape = found[0][:1] if shape is None else shape
    if found != (shape, False, dtype):
        raise ValueError(f"array '{key}' is {found[2]}{found[0]}, expected {dtype}{shape}")
    count = int(np.prod(shape, dtype=np.int64))
    if len(data) - head.tell() != count * dtype.itemsize:
        raise ValueError(f"array '{key}' has not the bytes that its header says")
    return np.frombuffer(data, dtype, count, head.tell()).reshape(shape)


def _parse_header(archive: zipfile.ZipFile) -> ChunkHeader:
    try:
        meta = json.loads(archive.read("meta.json"))
        if meta.pop("format") != FORMAT or meta.pop("version") != VERSION:
            raise ValueError(f"not a {FORMAT} of version {VERSION}")
        header = ChunkHeader(**meta)
        Schema.from_json(header.schema)
        if len(bytes.fromhex(header.uuid)) != 16:
            raise ValueError(f"uuid {header.uuid}")
    except (TypeError, AttributeError) as error:
        raise ValueError(f"meta.json is not readable ({error})") from error
    if not 0 < header.length <= header.size:
        raise ValueError(f"{header.length} steps in a chunk of {header.size}")
    return header


def _describe(path: Path, error: Exception) -> str:
    reason = str(error).strip("'\"") or type(error).__name__
    return f"{path.name} is no readable chunk file: {reason}"
