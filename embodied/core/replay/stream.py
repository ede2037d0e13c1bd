"""Streams: the steps of each worker in order, kept in chunks, and where each step is."""

import datetime
import itertools
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from embodied.core.replay.chunk import Chunk
from embodied.core.replay.schema import STEPID_BYTES, Schema, SchemaError

POSITION_BITS = 40
POSITION_MASK = (1 << POSITION_BITS) - 1


@dataclass(slots=True, eq=False)
class Stream:
    """Steps of one worker, none missing in between, in chunks of equal size.

    Attributes:
        base: Address of position 0, see `Streams`.
        worker: Index of the worker that wrote the steps.
        chunk_size: Steps per chunk.
        chunks: Present chunks by position divided by chunk size. Old ones go first, so that there
            are no holes.
        tail: The newest chunk.
        first_start: Position of the oldest step that starts an item, or that will start the next.
        end: Position after the newest step.
        skipped: Steps of the stream before position 0, which a save left behind.
    """

    base: int
    worker: int
    chunk_size: int
    chunks: dict[int, Chunk] = field(default_factory=dict)
    tail: Chunk | None = None
    first_start: int = 0
    end: int = 0
    skipped: int = 0

    def push(self, chunk: Chunk) -> None:
        """Link a chunk behind the newest one, which has to be full; its steps count as added."""
        if self.tail is not None:
            assert self.tail.length == self.tail.size, "only the last chunk may have free rows"
            if self.tail.successor != chunk.uuid:
                self.tail.successor = chunk.uuid
                self.tail.version += 1
        chunk.address = self.base + self.end
        self.chunks[self.end // self.chunk_size] = chunk
        self.tail = chunk
        self.end += chunk.length


class Restored(NamedTuple):
    """A stream as it was read from files.

    Attributes:
        chunks: Its chunks in order; all but the last are full.
        starts: Positions at which an item starts, ascending, int64 [items].
        dates: Per item the serial number of its last step, with which it came into being.
    """

    chunks: list[Chunk]
    starts: np.ndarray
    dates: np.ndarray


class Streams:
    """All steps in memory.

    A step has two names. Its *address* is one integer: number of the stream times
    `2 ** POSITION_BITS` plus position in the stream, so that consecutive steps of a worker have
    consecutive addresses. Its *step id* stays the same after a restart and goes along with
    batches: 20 bytes, the UUID of the chunk and the index of the step in it (big endian).

    Nothing in here is thread-safe; the replay calls it under its lock.

    Attributes:
        chunk_size: Steps per chunk of new streams.
        by_number: Streams with steps that an item reaches or that a worker appends to.
        writers: Stream that each worker appends to.
        chunks: All chunks by UUID.
        serial: Number of steps ever added.
    """

    def __init__(self, chunk_size: int) -> None:
        """Create streams of chunks of a size; there are none yet."""
        self.chunk_size = chunk_size
        self.serial = 0
        self._numbers = itertools.count()
        self.clear()

    def clear(self) -> None:
        """Forget all steps; numbers of streams and steps are not used again."""
        self.by_number: dict[int, Stream] = {}
        self.writers: dict[int, Stream] = {}
        self.chunks: dict[bytes, Chunk] = {}

    def append(
        self, schema: Schema, packed: bytes, columns: Sequence[Any], worker: int
    ) -> Stream | None:
        """Store a step, packed by `Schema.pack`, at the end of the stream of its worker.

        Returns:
            The stream; None if the step has a NaN, and then nothing is stored.
        """
        stream = self.writers.get(worker)
        if stream is None:
            stream = self.writers[worker] = self._begin(worker, self.chunk_size)
        chunk = stream.tail
        if chunk is None or chunk.length == chunk.size:
            chunk = self._new_chunk(schema, stream)
        if not chunk.write(packed, columns, self.serial):
            return None
        self.serial += 1
        stream.end += 1
        return stream

    def retire(self, address: int, length: int) -> Stream | None:
        """Free what no item reaches after the item at an address, the oldest one, is gone.

        Items of a stream go in order, so a chunk is out of reach once its last step starts none.

        Returns:
            The stream if it is gone altogether, else None.
        """
        stream = self.by_number[address >> POSITION_BITS]
        stream.first_start = (address & POSITION_MASK) + 1
        if stream.first_start % stream.chunk_size == 0:
            chunk = stream.chunks.pop(stream.first_start // stream.chunk_size - 1, None)
            if chunk is not None:
                del self.chunks[chunk.uuid]
        has_items = stream.first_start + length <= stream.end
        if has_items or self.writers.get(stream.worker) is stream:
            return None
        for chunk in stream.chunks.values():
            del self.chunks[chunk.uuid]
        del self.by_number[address >> POSITION_BITS]
        return stream

    def adopt(self, restored: Sequence[Restored], length: int) -> np.ndarray:
        """Take over streams that were loaded.

        Args:
            restored: Their chunks, and which windows of them are items.
            length: Steps per item.

        Returns:
            Addresses of the items in the order in which they were inserted, int64 [items].
        """
        addresses, dates = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for chunks, starts, own_dates in restored:
            stream = self._begin(chunks[0].worker, chunks[0].size)
            for chunk in chunks:
                stream.push(chunk)
                self.chunks[chunk.uuid] = chunk
            none_yet = max(stream.end - length + 1, 0)
            stream.first_start = int(starts[0]) if len(starts) else none_yet
            addresses.append(stream.base + starts)
            dates.append(own_dates)
        order = np.argsort(np.concatenate(dates), kind="stable")
        return np.concatenate(addresses)[order]

    def chunk_at(self, address: int) -> Chunk | None:
        """The chunk in which a step lies, None if it is gone or not there yet."""
        stream = self.by_number.get(address >> POSITION_BITS)
        if stream is None:
            return None
        return stream.chunks.get((address & POSITION_MASK) // stream.chunk_size)

    def stepid(self, address: int) -> bytes | None:
        """Step id of an address, None if the step is gone."""
        chunk = self.chunk_at(address)
        return None if chunk is None else chunk.uuid + (address - chunk.address).to_bytes(4, "big")

    def address(self, stepid: bytes) -> int | None:
        """Address of a step id, None if the step is gone."""
        chunk = self.chunks.get(stepid[:16])
        if chunk is None:
            return None
        index = int.from_bytes(stepid[16:], "big")
        return chunk.address + index if index < chunk.length else None

    def addresses(self, stepid: np.ndarray) -> dict[int, int]:
        """Addresses of the first steps of rows, by row, without rows whose first step is gone.

        Args:
            stepid: Consecutive steps per row, uint8 [B, T, 20].

        Raises:
            SchemaError: If the steps of a row are not consecutive.
        """
        rows, steps = stepid.shape[:2]
        first, last = stepid[:, 0].tobytes(), stepid[:, -1].tobytes()
        found: dict[int, int] = {}
        for row in range(rows):
            place = slice(row * STEPID_BYTES, (row + 1) * STEPID_BYTES)
            address = self.address(first[place])
            if address is None:
                continue
            if self.address(last[place]) not in (address + steps - 1, None):
                raise SchemaError(f"Got step ids in row {row} that are not consecutive steps.")
            found[row] = address
        return found

    def date(self, item: int | None, length: int) -> int:
        """Serial number of the last step of an item, with which it came into being.

        Args:
            item: Address of its first step; for None, the serial number of the next step.
            length: Steps per item.
        """
        if item is None:
            return self.serial
        last = item + length - 1
        chunk = self.chunk_at(last)
        assert chunk is not None, "all steps of an item are present"
        return int(chunk.serials[last - chunk.address])

    def tails(self) -> dict[str, list[Any]]:
        """Per worker the newest chunk with steps, in hexadecimal, and the steps of its stream."""
        return {
            str(worker): [chunk.uuid.hex(), stream.skipped + stream.end]
            for worker, stream in self.writers.items()
            # Not the tail, which is empty if the first step for it was refused.
            if (chunk := stream.chunks.get((stream.end - 1) // stream.chunk_size)) is not None
        }

    def resume(self, tails: Mapping[str, Sequence[Any]]) -> None:
        """Let workers go on with streams that were loaded; `tails` is what `tails` returned."""
        streams = list(self.by_number.values())
        by_tail = {stream.tail.uuid.hex(): stream for stream in streams if stream.tail is not None}
        for worker, (tail, steps) in tails.items():
            if tail in by_tail:
                stream = self.writers[int(worker)] = by_tail[tail]
                # Which windows enter the online queue follows from the steps since the beginning.
                stream.skipped = int(steps) - stream.end

    def _begin(self, worker: int, chunk_size: int) -> Stream:
        number = next(self._numbers)
        stream = self.by_number[number] = Stream(number << POSITION_BITS, worker, chunk_size)
        return stream

    def _new_chunk(self, schema: Schema, stream: Stream) -> Chunk:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S%f")
        chunk = Chunk(schema, stream.worker, stream.chunk_size, uuid.uuid4().bytes, now)
        stream.push(chunk)
        self.chunks[chunk.uuid] = chunk
        return chunk
