"""What one stored step consists of: keys, dtypes, shapes, and their layout in memory."""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike

from embodied.core.space import Space

COLUMN_BYTES = 256
STEPID_BYTES = 20


class SchemaError(ValueError):
    """A step, write-back or file does not have the keys, dtypes, shapes or values expected."""


class Field(NamedTuple):
    """One key of a step and where it lives.

    Attributes:
        key: Name in the step.
        dtype: NumPy dtype, also types of ml_dtypes.
        shape: Shape of the value of one step.
        offset: Byte offset in the packed record, or -1 where the key has an array of its own.
    """

    key: str
    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int

    @property
    def nbytes(self) -> int:
        """Bytes of one step's value."""
        return self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))

    @property
    def floating(self) -> bool:
        """Whether values can be NaN; also true for the types of ml_dtypes."""
        return is_floating(self.dtype)

    def takes(self, dtype: np.dtype) -> bool:
        """Whether values of a dtype can be stored: the same one, or another that is computed in."""
        if dtype == self.dtype:
            return True
        return all(is_floating(x) and x.itemsize <= 4 and x.isnative for x in (self.dtype, dtype))


class Schema:
    """Keys, dtypes and shapes of a step, with fast checking and packing.

    Values of at least `COLUMN_BYTES` bytes have an array of their own per chunk. All smaller ones
    share a packed record, so that storing a step is one copy and not one per key. In the record
    keys are ordered by item size, which keeps each of them aligned and all floats of a type side
    by side, where one pass finds a NaN. The last 20 bytes of the record hold the step id.

    Attributes:
        fields: All fields in the order of `pack`: packed ones, then columns.
        packed: Fields that share the record.
        columns: Fields with an array of their own.
        packed_bytes: Bytes of the packed fields.
        stepid_offset: Where the step id lies in the record.
        record_bytes: Bytes of the record with step id and padding.
        record_dtype: The record as one opaque element per field.
        step_bytes: Bytes that one step takes in memory, the record and all columns.
    """

    def __init__(self, entries: Mapping[str, tuple[DTypeLike, Sequence[int]]]) -> None:
        """Lay out the fields.

        Args:
            entries: Dtype and shape per key. Keys that start with `log/` are left out.

        Raises:
            SchemaError: If there are no keys or one is not numeric.
        """
        fields = [
            Field(key, np.dtype(dtype), tuple(int(size) for size in shape), -1)
            for key, (dtype, shape) in entries.items()
            if not key.startswith("log/")
        ]
        if not fields:
            raise SchemaError("Got a step without keys, expected at least one to store.")
        for field in fields:
            _check_numeric(field.key, field.dtype)
            if field.key == "stepid":
                raise SchemaError("Got key 'stepid', expected another name: the replay adds it.")
        small = [field for field in fields if field.nbytes < COLUMN_BYTES]
        small.sort(key=lambda field: (-field.dtype.itemsize, str(field.dtype), field.key))
        packed, offset = [], 0
        for field in small:
            packed.append(field._replace(offset=offset))
            offset += field.nbytes
        self.packed = packed
        self.columns = sorted(field for field in fields if field.nbytes >= COLUMN_BYTES)
        self.fields = [*self.packed, *self.columns]
        self.packed_bytes = self.stepid_offset = offset
        self.record_bytes = (offset + STEPID_BYTES + 7) // 8 * 8
        self.record_dtype = self._record_dtype()
        self.step_bytes = self.record_bytes + sum(field.nbytes for field in self.columns)
        self._dtypes = [field.dtype for field in self.fields]
        self._shapes = [field.shape for field in self.fields]
        self._get_values = _getter([field.key for field in self.fields])
        self._num_packed = len(self.packed)
        self._known_names: tuple[str, ...] = ()

    @classmethod
    def from_step(cls, step: Mapping[str, Any], worker: int = 0) -> "Schema":
        """Take keys, dtypes and shapes from a step, which is checked for NaN as well."""
        arrays = {key: np.asarray(value) for key, value in step.items()}
        schema = cls({key: (value.dtype, value.shape) for key, value in arrays.items()})
        schema.check_finite(arrays, worker)
        return schema

    @classmethod
    def from_spaces(cls, spaces: Mapping[str, Space]) -> "Schema":
        """Take keys, dtypes and shapes from spaces."""
        return cls({key: (space.dtype, space.shape) for key, space in spaces.items()})

    def with_floats(self, dtypes: Mapping[str, str]) -> "Schema":
        """The same schema with other dtypes for the floats among these keys, given by name."""
        entries: dict[str, tuple[DTypeLike, Sequence[int]]] = {}
        for field in self.fields:
            cast = field.floating and field.key in dtypes
            entries[field.key] = dtype_of(dtypes[field.key]) if cast else field.dtype, field.shape
        return Schema(entries)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Schema":
        """Inverse of `to_json`."""
        return cls({key: (dtype_of(dtype), shape) for key, (dtype, shape) in data.items()})

    def to_json(self) -> dict[str, Any]:
        """Return `{key: [dtype name, shape]}`, sorted by key."""
        fields = sorted(self.fields)
        return {field.key: [field.dtype.name, list(field.shape)] for field in fields}

    def pack(self, step: Mapping[str, Any], worker: int) -> tuple[bytes, Sequence[Any]]:
        """Check keys, dtypes and shapes of a step and pack it; floats of another width are cast.

        Args:
            step: Value per key; further keys may only be `log/` keys.
            worker: Named in errors.

        Returns:
            The packed record without step id, and the values of the columns.

        Raises:
            SchemaError: Naming key, worker, expected and got.
        """
        names = tuple(step)
        if names != self._known_names:
            self._check_names(names, worker)
            self._known_names = names
        values = self._get_values(step)
        try:
            same = [*map(_GET_DTYPE, values)] == self._dtypes
            same = same and [*map(_GET_SHAPE, values)] == self._shapes
        except AttributeError:
            same = False
        if not same:
            values = self._cast([np.asarray(value) for value in values], worker)
        try:
            packed = b"".join(values[: self._num_packed])
        except (TypeError, ValueError, BufferError):
            # Joining wants contiguous memory and an exporter; both are rare to be missing.
            parts = values[: self._num_packed]
            packed = b"".join([np.ascontiguousarray(value).tobytes() for value in parts])
        return packed, values[self._num_packed :]

    def check_finite(self, step: Mapping[str, Any], worker: int) -> None:
        """Raise a SchemaError that names the key if a float of the step is NaN."""
        for field in self.fields:
            value = np.asarray(step[field.key])
            if field.floating and has_nan(value.ravel()):
                raise SchemaError(
                    f"Got NaN in key '{field.key}' of worker {worker}, expected numbers: {value}. "
                    "Find where the environment or the policy makes it."
                )

    def check_update(
        self, entries: Mapping[str, Any], leading: tuple[int, ...]
    ) -> dict[str, np.ndarray]:
        """Check arrays [*leading, ...] that are to replace stored values of some keys.

        Floats of another width are cast to the one that is stored.

        Raises:
            SchemaError: If a key is unknown, or a kind or shape differs.
        """
        values, fields = {}, {field.key: field for field in self.fields}
        for key, entry in entries.items():
            if key not in fields:
                keys = sorted(fields)
                raise SchemaError(f"Got an update of key '{key}', expected stored keys: {keys}.")
            value, field = np.asarray(entry), fields[key]
            shape = (*leading, *field.shape)
            if not field.takes(value.dtype) or value.shape != shape:
                raise SchemaError(
                    f"Got an update of key '{key}' as {value.dtype}{value.shape}, expected "
                    f"{field.dtype}{shape}."
                )
            values[key] = value.astype(field.dtype, copy=False)
        return values

    def difference(self, other: "Schema", more: bool = False) -> str | None:
        """Describe the first keys in which another schema differs, None if it fits.

        Floats may be of another width, as they are cast.

        Args:
            other: The other schema.
            more: Whether it may have more keys.
        """
        mine, theirs = ({x.key: x for x in schema.fields} for schema in (self, other))
        lines = []
        for key in sorted({*mine} if more else {*mine, *theirs}):
            want, got = mine.get(key), theirs.get(key)
            if not (want and got and want.takes(got.dtype) and want.shape == got.shape):
                lines.append(f"key '{key}': got {_type_name(got)}, expected {_type_name(want)}")
        return "; ".join(lines[:5]) if lines else None

    def _record_dtype(self) -> np.dtype:
        parts = [(field.key, field.nbytes, field.offset) for field in self.packed]
        parts.append(("stepid", STEPID_BYTES, self.stepid_offset))
        names, sizes, offsets = zip(*parts, strict=True)
        kinds = [f"u{size}" if size in (1, 2, 4, 8) else f"V{size}" for size in sizes]
        layout: Any = {"names": names, "formats": kinds, "offsets": offsets}
        layout["itemsize"] = self.record_bytes
        dtype: np.dtype = np.dtype(layout)
        return dtype

    def _check_names(self, names: Iterable[str], worker: int) -> None:
        expected = {field.key for field in self.fields}
        found = {name for name in names if not name.startswith("log/")}
        if found == expected:
            return
        missing, extra = sorted(expected - found), sorted(found - expected)
        problem = f"no key '{missing[0]}'" if missing else f"the extra key '{extra[0]}'"
        raise SchemaError(
            f"Got a step of worker {worker} with {problem}, expected the keys of the first step: "
            f"{sorted(expected)} (got {sorted(found)})."
        )

    def _cast(self, values: Sequence[np.ndarray], worker: int) -> list[np.ndarray]:
        for field, value in zip(self.fields, values, strict=True):
            if not field.takes(value.dtype) or value.shape != field.shape:
                raise SchemaError(
                    f"Got key '{field.key}' of worker {worker} as {value.dtype}{value.shape}, "
                    f"expected {field.dtype}{field.shape} like in the first step."
                )
        fields = zip(self.fields, values, strict=True)
        return [value.astype(field.dtype, copy=False) for field, value in fields]


def is_floating(dtype: np.dtype) -> bool:
    """Whether values of a dtype can be NaN; also true for the types of ml_dtypes."""
    if dtype.kind == "V":
        return dtype.names is None and "float" in dtype.name
    return dtype.kind == "f"


def dtype_of(name: str) -> np.dtype:
    """Dtype of a name such as `float32` or `bfloat16`.

    Raises:
        SchemaError: If there is no such numeric dtype.
    """
    try:
        return np.dtype(getattr(ml_dtypes, name, name))
    except TypeError:
        raise SchemaError(f"Got dtype name {name!r}, expected a numeric dtype.") from None


def has_nan(values: np.ndarray) -> bool:
    """Whether a 1-D float array holds a NaN; several times faster than `isnan(values).any()`.

    The largest element is sought, and a NaN counts as larger than anything.
    """
    if not len(values):
        return False
    if values.dtype == ml_dtypes.bfloat16 and len(values) > 2048:
        # Its own comparisons are slow. The bits of a NaN, but for the sign, lie above infinity's.
        return bool((values.view(np.uint16) & 0x7FFF).max() > 0x7F80)
    largest = values[values.argmax()]
    return bool(largest != largest)


def storage_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype as which values are written to files: unsigned integers for ml_dtypes' types."""
    if hasattr(ml_dtypes, dtype.name):
        return np.dtype(f"u{dtype.itemsize}")
    return dtype


_GET_DTYPE = operator.attrgetter("dtype")
_GET_SHAPE = operator.attrgetter("shape")


def _getter(keys: Sequence[str]) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    if len(keys) > 1:
        return operator.itemgetter(*keys)
    return lambda step: (step[keys[0]],)


def _check_numeric(key: str, dtype: np.dtype) -> None:
    if dtype.kind in "biuf" and dtype.isnative:
        return
    if dtype.kind == "V" and dtype.names is None and hasattr(ml_dtypes, dtype.name):
        return
    raise SchemaError(
        f"Got key '{key}' with dtype {dtype}, expected bools, integers or floats in native byte "
        "order."
    )


def _type_name(field: Field | None) -> str:
    return "nothing" if field is None else f"{field.dtype.name}{field.shape}"
