"""Storage of up to `size` consecutive steps of one worker."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from embodied.core.replay.schema import STEPID_BYTES, Schema, SchemaError, has_nan


class SavedChunk(NamedTuple):
    """What of a chunk is on disk: a whole file, and parts with what has changed since.

    Attributes:
        token: Names the whole file among those that the chunk has had.
        length: Steps on disk.
        parts: Number of parts.
        whole_bytes: Bytes of the steps in the whole file.
        part_bytes: Bytes in all parts.
    """

    token: str
    length: int
    parts: int
    whole_bytes: int
    part_bytes: int


class Changes(NamedTuple):
    """What is new in a chunk.

    Attributes:
        rows: Rows of older steps that were overwritten, int64 [changed].
        changed: Array [changed, ...] per overwritten key.
        added: Array [added, ...] per key of the steps that were added.
    """

    rows: np.ndarray
    changed: dict[str, np.ndarray]
    added: dict[str, np.ndarray]


class Chunk:
    """Preallocated arrays for consecutive steps.

    Rows are written once, in order, by `write`; later only `overwrite` changes them. Readers of
    rows below `length` and `overwrite` hold `lock`, so that no step is ever seen half written.

    Attributes:
        schema: Layout of the arrays.
        worker: Worker whose steps they are.
        uuid: 16 bytes that name the chunk for good.
        created: Text that sorts by time of creation.
        size: Steps after which the worker's stream goes on in another chunk.
        length: Number of steps written.
        successor: UUID of the chunk in which the worker's next steps are, None if there is none.
        address: Address of the first step, see `Streams`; set when it joins a stream.
        serials: Per step, how many steps the replay had inserted before it, int64 [rows].
        fields: Array [rows, ...] per key; a view of the record or a column.
        version: Grows with every change.
        saved_version: Version that is on disk.
        saved: What of the chunk is on disk, None if that is not known; see `SavedChunk`.
        lock: Held while rows are copied.
    """

    # Storing a step is a little faster with slots.
    __slots__ = (
        "_changed_keys",
        "_changed_rows",
        "_columns",
        "_float_blocks",
        "_float_keys",
        "_packed",
        "_record",
        "address",
        "created",
        "fields",
        "length",
        "lock",
        "nbytes",
        "saved",
        "saved_version",
        "schema",
        "serials",
        "size",
        "successor",
        "uuid",
        "version",
        "worker",
    )

    def __init__(
        self,
        schema: Schema,
        worker: int,
        size: int,
        uuid: bytes,
        created: str,
        rows: int | None = None,
    ) -> None:
        """Allocate an empty chunk.

        Args:
            schema: Layout of the arrays.
            worker: Worker whose steps they are.
            size: Steps after which the worker's stream goes on in another chunk.
            uuid: 16 bytes.
            created: Text that sorts by time of creation.
            rows: Steps to make room for if the chunk will never be filled, `size` if None.
        """
        rows = size if rows is None else rows
        self.schema = schema
        self.worker = worker
        self.uuid = uuid
        self.created = created
        self.size = size
        self.length = 0
        self.successor: bytes | None = None
        self.address = -1
        self.version = 0
        self.saved_version = -1
        self.saved: SavedChunk | None = None
        self._changed_rows = np.zeros(rows, bool)
        self._changed_keys: set[str] = set()
        self.lock = threading.Lock()
        self.serials = np.zeros(rows, np.int64)
        self._record = np.empty((rows, schema.record_bytes), np.uint8)
        # Setting one void element from bytes is the quickest way to write a record.
        self._packed = np.ndarray(
            (rows,), f"V{max(schema.packed_bytes, 1)}", self._record.data, 0, (schema.record_bytes,)
        )
        self._columns = [np.empty((rows, *field.shape), field.dtype) for field in schema.columns]
        self._fill_stepids()
        self.fields = self._views()
        self._float_keys = {field.key for field in schema.fields if field.floating}
        self._float_blocks = self._find_float_blocks()
        self.nbytes = schema.step_bytes * rows + self.serials.nbytes

    def write(self, packed: bytes, columns: Sequence[Any], serial: int) -> bool:
        """Append a checked step; tell whether it was stored, that is, free of NaN.

        Args:
            packed: Record without step id, from `Schema.pack`.
            columns: Values of the columns, from `Schema.pack`.
            serial: See attribute `serials`.
        """
        index = self.length
        if packed:
            self._packed[index] = packed
        for target, value in zip(self._columns, columns):  # noqa: B905 (costs time)
            target[index] = value
        for block in self._float_blocks:
            row = block[index]
            # A NaN counts as the largest element; seeking it is the quickest test there is.
            largest = row[row.argmax()]
            if largest != largest:
                return False
        self.serials[index] = serial
        self.length = index + 1
        self.version += 1
        return True

    def read(
        self, start: int, stop: int, record: np.ndarray, columns: Sequence[np.ndarray]
    ) -> None:
        """Copy steps `start` to `stop - 1`.

        Args:
            start: First row of this chunk.
            stop: Row after the last.
            record: Where the records go, uint8 [stop - start, record_bytes].
            columns: Where the columns go, each [stop - start, ...].
        """
        with self.lock:
            record[...] = self._record[start:stop]
            for target, source in zip(columns, self._columns, strict=True):
                target[...] = source[start:stop]

    def overwrite(self, start: int, stop: int, values: Mapping[str, np.ndarray]) -> None:
        """Replace values of steps `start` to `stop - 1` for some keys, arrays [steps, ...].

        Raises:
            SchemaError: If a float is NaN. Nothing is changed.
        """
        for key, value in values.items():
            if key in self._float_keys and has_nan(value.reshape(-1)):
                raise SchemaError(f"Got NaN in an update of key '{key}', expected numbers.")
        with self.lock:
            for key, value in values.items():
                self.fields[key][start:stop] = value
            self._changed_rows[start:stop] = True
            self._changed_keys |= values.keys()
            self.version += 1

    def export(self, length: int) -> dict[str, np.ndarray]:
        """Copy the first `length` steps: contiguous array [length, ...] per key."""
        with self.lock:
            self._forget_changes()
            return {key: value[:length].copy() for key, value in self.fields.items()}

    def export_changes(self, start: int, length: int) -> Changes:
        """Copy what is new since the last export, which ended before step `start`."""
        with self.lock:
            rows = np.flatnonzero(self._changed_rows[:start])
            keys = sorted(self._changed_keys) if len(rows) else []
            changed = {key: self.fields[key][rows] for key in keys}
            self._forget_changes()
            added = {key: value[start:length].copy() for key, value in self.fields.items()}
        return Changes(rows, changed, added)

    def changed_bytes(self, start: int, length: int) -> int:
        """Bytes of what `export_changes` would return."""
        sizes = {field.key: field.nbytes for field in self.schema.fields}
        with self.lock:
            changed = sum(sizes[key] for key in self._changed_keys)
            rows = int(np.count_nonzero(self._changed_rows[:start]))
        return rows * changed + (length - start) * self.schema.step_bytes

    def _forget_changes(self) -> None:
        self._changed_rows[:] = False
        self._changed_keys.clear()

    def fill(self, values: Mapping[str, np.ndarray], serials: np.ndarray) -> None:
        """Set the steps of an empty chunk from arrays [length, ...], at most `size` long."""
        self.length = len(serials)
        self.serials[: self.length] = serials
        for key, value in values.items():
            self.fields[key][: self.length] = value

    def _fill_stepids(self) -> None:
        offset = self.schema.stepid_offset
        self._record[:, offset : offset + 16] = np.frombuffer(self.uuid, np.uint8)
        indices = np.arange(len(self._record), dtype=">u4").view(np.uint8).reshape(-1, 4)
        self._record[:, offset + 16 : offset + STEPID_BYTES] = indices
        self._record[:, offset + STEPID_BYTES :] = 0

    def _views(self) -> dict[str, np.ndarray]:
        views = {}
        stride = self.schema.record_bytes
        for field in self.schema.packed:
            inner = np.empty(field.shape, field.dtype).strides
            views[field.key] = np.ndarray(
                (len(self._record), *field.shape),
                field.dtype,
                self._record.data,
                field.offset,
                (stride, *inner),
            )
        for field, column in zip(self.schema.columns, self._columns, strict=True):
            views[field.key] = column
        return views

    def _find_float_blocks(self) -> list[np.ndarray]:
        """Arrays [rows, count] that together cover every float of a step, as few as possible."""
        blocks = []
        stride = self.schema.record_bytes
        for dtype in dict.fromkeys(field.dtype for field in self.schema.packed if field.floating):
            fields = [field for field in self.schema.packed if field.dtype == dtype]
            count = sum(field.nbytes for field in fields) // dtype.itemsize
            offset = min(field.offset for field in fields)
            if count:
                shape, strides = (len(self._record), count), (stride, dtype.itemsize)
                blocks.append(np.ndarray(shape, dtype, self._record.data, offset, strides))
        for field, column in zip(self.schema.columns, self._columns, strict=True):
            if field.floating:
                blocks.append(column.reshape(len(self._record), -1))
        return blocks
