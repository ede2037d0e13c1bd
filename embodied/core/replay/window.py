"""Windows: what the rows of a batch are.

A window is `length` consecutive steps of one stream. It may start at any step, and go on from one
chunk to the next and from one episode to the next, but a stream has no gaps, and so neither has a
window. An *item* is a window that may be drawn; a step starts at most one.

Time in a window, each step a column. The action is chosen after the observation and the latent of
the same step, and the reward is for the action of the step before:

    step         0 (context)  1                  t           length - 1
    observation  x[0]         x[1]               x[t]        x[length-1]
    reward       r[0]         r[1] for a[0]      r[t]        r[length-1]
    latent       h[0], z[0]   computed from h[0], z[0], a[0], x[1], then step by step
    action       a[0]         a[1]               a[t]        a[length-1], for a next window
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from embodied.core.replay.chunk import Chunk
from embodied.core.replay.schema import STEPID_BYTES
from embodied.core.replay.stream import POSITION_BITS, POSITION_MASK, Streams


class Segment(NamedTuple):
    """Part of a window that lies within one chunk.

    Attributes:
        row: Row of the batch.
        time: First time step within the row.
        chunk: Where the steps are.
        start: First step in the chunk.
        stop: Step after the last.
    """

    row: int
    time: int
    chunk: Chunk
    start: int
    stop: int


def find_windows(
    streams: Streams, windows: Iterable[tuple[int, int]], length: int
) -> list[Segment]:
    """Find the steps of windows in the chunks.

    Args:
        streams: Where the steps are.
        windows: Row of the batch, and address of the first step, per window.
        length: Steps per window; the end of its stream cuts one short.
    """
    segments = []
    for row, address in windows:
        stream = streams.by_number[address >> POSITION_BITS]
        position = address & POSITION_MASK
        steps = min(length, stream.end - position)
        number, start = divmod(position, stream.chunk_size)
        time = 0
        while time < steps:
            count = min(stream.chunk_size - start, steps - time)
            segments.append(Segment(row, time, stream.chunks[number], start, start + count))
            time, number, start = time + count, number + 1, 0
    return segments


def copy_windows(segments: Sequence[Segment], batch: int, length: int) -> dict[str, np.ndarray]:
    """Copy windows out of the chunks.

    Args:
        segments: Together they cover every step of every row once; at least one.
        batch: Number of rows B.
        length: Steps per row.

    Returns:
        Fresh contiguous array [B, length, ...] per key, and `stepid` uint8 [B, length, 20].
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
    """Mark the edges of a batch in place, `is_first` and `is_last` bool [B, length].

    The first step of every row is a first step, since nothing before it is known. The step before
    a first step is a last one, which covers episodes that were abandoned.
    """
    if "is_first" in data:
        if "is_last" in data:
            data["is_last"][:, :-1] |= data["is_first"][:, 1:]
        data["is_first"][:, 0] = True
    return data


class OnlineQueue:
    """Fresh windows that do not overlap, oldest first.

    A batch for training is made of these first, and then of windows that are drawn (paper,
    Methods, Experience replay), so that every step is trained on soon after it was stored.
    """

    def __init__(self, streams: Streams, limit: int) -> None:
        """Create an empty queue.

        Args:
            streams: Where the steps are.
            limit: Number of windows from which on those that are gone are dropped.
        """
        self._streams = streams
        self._limit = self._least_limit = limit
        self._addresses: deque[int] = deque()

    def __len__(self) -> int:
        """Number of windows, those included that are gone and were not noticed yet."""
        return len(self._addresses)

    def push(self, address: int) -> None:
        """Append the window from an address on; without a consumer it must not grow for ever."""
        self._addresses.append(address)
        if len(self._addresses) > self._limit:
            present = [x for x in self._addresses if self._streams.chunk_at(x) is not None]
            self._addresses = deque(present)
            self._limit = max(self._least_limit, 2 * len(self._addresses))

    def pop(self, amount: int) -> list[int]:
        """Take the addresses of up to `amount` windows, skipping those that are gone.

        A window counts as gone once its first chunk is; it may outlive its item for a while.
        """
        addresses: list[int] = []
        while self._addresses and len(addresses) < amount:
            address = self._addresses.popleft()
            if self._streams.chunk_at(address) is not None:
                addresses.append(address)
        return addresses

    def clear(self) -> None:
        """Forget all windows."""
        self._addresses.clear()
        self._limit = self._least_limit

    def save(self) -> np.ndarray:
        """Step ids of the first steps, uint8 [windows, 20]."""
        found = map(self._streams.stepid, self._addresses)
        stepids = b"".join(stepid for stepid in found if stepid is not None)
        return np.frombuffer(stepids, np.uint8).reshape(-1, STEPID_BYTES).copy()

    def load(self, stepids: np.ndarray, length: int) -> None:
        """Append the windows of `length` steps that are present as a whole."""
        for row in np.asarray(stepids, np.uint8):
            address = self._streams.address(bytes(row))
            # The rest of a window may be lost though its first step is there.
            if address is not None:
                stream = self._streams.by_number[address >> POSITION_BITS]
                if (address & POSITION_MASK) + length <= stream.end:
                    self._addresses.append(address)
