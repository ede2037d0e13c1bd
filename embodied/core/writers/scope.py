"""Writes metrics in the column format of the Scope viewer."""

import os
import secrets
import struct
import time
from collections.abc import Sequence
from pathlib import Path

from embodied.core.writers.pictures import PictureFilter, encode_mp4, encode_png
from embodied.core.writers.services import allowed_name
from embodied.core.writers.writer import Record, Writer

_SCALAR = struct.Struct(">qd")
_INDEX = struct.Struct("<q8s")
#: Bytes of a column's name; file systems take 255 with the extension.
_LONGEST_NAME = 240


class ScopeWriter(Writer):
    """One column per key under `scope/`, a slash in the key written as a minus sign.

    Scalars are appended to `<key>.float` as 16-byte records (big-endian int64 step, float64
    value). Texts, images and videos are files `{step:020d}-{identifier}.{extension}` in a folder
    `<key>.txt|png|mp4`, whose `index` holds 16-byte records (int64 step and 8 bytes identifier,
    made of four bytes big-endian seconds and four random bytes). Half a record that a killed run
    has left behind is cut off before appending. Vectors are not shown.

    Images need the package `pillow` and videos `av` (extra `scope`); without them, they are left
    out and a warning says so once.
    """

    def __init__(self, logdir: str | os.PathLike[str], fps: int = 15) -> None:
        """Create the writer.

        Args:
          logdir: Folder of the run; the columns go to its subfolder `scope`.
          fps: Frames per second of the videos.
        """
        self._folder = Path(logdir) / "scope"
        self._fps = fps
        self._writable = PictureFilter("Scope", "scope", videos=("av",))

    def __call__(self, records: Sequence[Record]) -> None:
        """Append the records to their columns."""
        self._folder.mkdir(parents=True, exist_ok=True)
        scalars: dict[str, list[bytes]] = {}
        for record in self._writable(records):
            if isinstance(record.value, str):
                self._write_file(record, "txt", record.value.encode())
            elif record.kind == "scalar":
                packed = _SCALAR.pack(record.step, float(record.value))
                scalars.setdefault(record.key, []).append(packed)
            elif record.kind == "image":
                self._write_file(record, "png", encode_png(record.value))
            elif record.kind == "video":
                self._write_file(record, "mp4", encode_mp4(record.value, self._fps))
        for key, parts in scalars.items():
            _append(self._folder / f"{_column(key)}.float", b"".join(parts), _SCALAR.size)

    def _write_file(self, record: Record, extension: str, content: bytes) -> None:
        column = self._folder / f"{_column(record.key)}.{extension}"
        column.mkdir(parents=True, exist_ok=True)
        identifier = struct.pack(">I", int(time.time()) & 0xFFFFFFFF) + secrets.token_bytes(4)
        (column / f"{record.step:020d}-{identifier.hex()}.{extension}").write_bytes(content)
        _append(column / "index", _INDEX.pack(record.step, identifier), _INDEX.size)


def _column(key: str) -> str:
    return allowed_name(key.replace("/", "-"), "\0", _LONGEST_NAME)


def _append(path: Path, content: bytes, size: int) -> None:
    """Append whole records, after cutting off the rest of an unfinished one."""
    with path.open("ab") as file:
        rest = file.tell() % size
        if rest:
            file.truncate(file.tell() - rest)
        file.write(content)
