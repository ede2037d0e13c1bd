"""Writes metrics as lines of JSON."""

import json
import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from embodied.core.writers.writer import Record, Writer

Line = dict[str, str | float | None]
_LONGEST_LINE = 2**20


class JSONLWriter(Writer):
    """Appends one JSON object per logged step: `step` and the scalars of that step.

    Numbers that JSON lacks (NaN and the infinities) become null, so that every reader accepts the
    file. A key that was logged again at the same step starts a further line, so no value is lost.
    A last line that a killed run has left unfinished is removed.
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        filename: str = "metrics.jsonl",
        pattern: str = ".*",
        strings: bool = False,
    ) -> None:
        """Create the writer.

        Args:
          logdir: Folder of the run; made when needed.
          filename: File inside the folder.
          pattern: Regular expression searched in the keys.
          strings: Whether texts are written, too.
        """
        self._path = Path(logdir) / filename
        self._pattern = re.compile(pattern)
        self._kinds = {"scalar", "text"} if strings else {"scalar"}

    def __call__(self, records: Sequence[Record]) -> None:
        """Append the matching records. The file is opened anew each time."""
        wanted = [
            record
            for record in records
            if record.kind in self._kinds and self._pattern.search(record.key)
        ]
        if not wanted:
            return
        text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in _lines(wanted))
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a+b") as file:
            _repair(file)
            file.write(text.encode())


def _lines(records: Sequence[Record]) -> list[Line]:
    """One line per step in order of appearance, or several where keys repeat."""
    lines: list[Line] = []
    current: dict[int, Line] = {}
    for record in records:
        line = current.get(record.step)
        if line is None or record.key in line:
            line = current[record.step] = {"step": record.step}
            lines.append(line)
        line[record.key] = _json_value(record)
    return lines


def _json_value(record: Record) -> str | float | None:
    if isinstance(record.value, str):
        return record.value
    if record.value.dtype.kind in "iu":
        return int(record.value)
    value = float(record.value)
    return value if math.isfinite(value) else None


def _repair(file: BinaryIO) -> None:
    """Complete the last line of a file if only its line break is missing, else remove it."""
    size = file.seek(0, os.SEEK_END)
    length = _LONGEST_LINE if size > _LONGEST_LINE else size
    file.seek(-length, os.SEEK_END)
    last = file.read().rpartition(b"\n")[2]
    if not last:
        return
    try:
        json.loads(last)
    except ValueError:
        file.truncate(size - len(last))
    else:
        file.write(b"\n")
