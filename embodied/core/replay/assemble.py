"""From places in chunks to a batch of arrays."""

from collections.abc import Sequence

import numpy as np

from embodied.core.replay.schema import STEPID_BYTES
from embodied.core.replay.worker_stream import Segment


def assemble(segments: Sequence[Segment], batch: int, length: int) -> dict[str, np.ndarray]:
    """Copy windows out of chunks.

    Args:
        segments: Together they cover every step of every row once; at least one.
        batch: Number of rows B.
        length: Steps per row T.

    Returns:
        Fresh contiguous array [B, T, ...] per key, and `stepid` uint8 [B, T, 20].
    """
    schema = segments[0].chunk.schema
    record = np.empty((batch, length, schema.record_bytes), np.uint8)
    columns = [np.empty((batch, length, *field.shape), field.dtype) for field in schema.columns]
    for row, time, chunk, start, stop in segments:
        until = time + stop - start
        parts = [column[row, time:until] for column in columns]
        chunk.read(start, stop, record[row, time:until], parts)
    result = {}
    # Copying one opaque element per step is several times faster than a short row of numbers.
    elements = record.reshape(-1).view(schema.record_dtype)
    for field in schema.packed:
        values = elements[field.key].copy().view(field.dtype)
        result[field.key] = values.reshape(batch, length, *field.shape)
    for field, column in zip(schema.columns, columns, strict=True):
        result[field.key] = column
    stepid = elements["stepid"].copy().view(np.uint8)
    result["stepid"] = stepid.reshape(batch, length, STEPID_BYTES)
    return result


def annotate(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Mark the edges of a batch in place (spec row 5.3).

    The first step of every row is a first step, since nothing before it is known. The step before
    a first step is a last one, which covers episodes that were abandoned.
    """
    if "is_first" in data:
        if "is_last" in data:
            data["is_last"][:, :-1] |= data["is_first"][:, 1:]
        data["is_first"][:, 0] = True
    return data
