"""Bookkeeping of a replay: which steps are where, and which windows are items."""

import datetime
import itertools
import sys
import uuid
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from embodied.core.replay.chunk import Chunk
from embodied.core.replay.fifo_array import FifoArray
from embodied.core.replay.schema import Schema
from embodied.core.replay.selectors import Selector
from embodied.core.replay.worker_stream import (
    POSITION_BITS,
    POSITION_MASK,
    Segment,
    WorkerStream,
)


class Store:
    """Streams of chunks, items in order of insertion, and the online queue.

    Nothing in here is thread-safe or waits; the replay calls it under its lock.

    Attributes:
        length: Steps per item.
        capacity: Largest number of items, unlimited if None.
        chunksize: Steps per chunk of new streams.
        online: Whether fresh windows enter the online queue.
        selector: Draws items.
        items: Address of the first step of every item.
        streams: All streams with steps that an item reaches or a worker appends to, by number.
        writers: Stream that each worker appends to.
        chunks: All chunks in memory by UUID.
        queue: Addresses of fresh windows that were not drawn yet.
        serial: Number of steps ever added.
    """

    def __init__(
        self, length: int, capacity: int | None, chunksize: int, online: bool, selector: Selector
    ) -> None:
        """Create an empty store."""
        self.length = length
        self.capacity = capacity
        self._capacity = sys.maxsize if capacity is None else capacity
        self.chunksize = chunksize
        self.online = online
        self.selector = selector
        self.serial = 0
        self._numbers = itertools.count()
        self.clear()

    def clear(self) -> None:
        """Forget all steps; numbers of streams and steps are not used again."""
        self.items = FifoArray(np.int64)
        self.streams: dict[int, WorkerStream] = {}
        self.writers: dict[int, WorkerStream] = {}
        self.chunks: dict[bytes, Chunk] = {}
        self.queue: deque[int] = deque()
        self._queue_limit = self._capacity
        self.selector.clear()

    def add(self, schema: Schema, packed: bytes, columns: Sequence[Any], worker: int) -> bool:
        """Append a packed step; tell whether it was stored, that is, free of NaN."""
        stream = self.writers.get(worker)
        if stream is None:
            stream = self.writers[worker] = self.new_stream(worker, self.chunksize)
        chunk = stream.tail
        if chunk is None or chunk.length == chunk.size:
            chunk = self._new_chunk(schema, stream)
        if not chunk.write(packed, columns, self.serial):
            return False
        self.serial += 1
        end = stream.end
        stream.end = end + 1
        start = end + 1 - self.length
        if start >= 0:
            address = stream.base + start
            items = self.items
            items.append(address)
            self.selector.insert(address, self.length)
            if self.online and (stream.skipped + end) % self.length == 0:
                self._enqueue(address)
            if items.stop - items.first > self._capacity:
                self._evict()
        return True

    def draw(self, amount: int) -> list[int]:
        """Draw items with the selector; their addresses."""
        return self.items.take(self.selector.sample(amount)).tolist()

    def draw_uniformly(self, amount: int, rng: np.random.Generator) -> list[int]:
        """Draw items with equal probability, leaving the selector as it is; their addresses."""
        return self.items.take(rng.integers(self.items.first, self.items.stop, amount)).tolist()

    def pop_online(self, amount: int) -> list[int]:
        """Take up to `amount` windows from the online queue, skipping those that are gone.

        A window counts as gone once its first chunk is; it may outlive its item for a while.
        """
        addresses: list[int] = []
        while self.queue and len(addresses) < amount:
            address = self.queue.popleft()
            stream = self.streams.get(address >> POSITION_BITS)
            if stream is not None and stream.chunk_at(address & POSITION_MASK) is not None:
                addresses.append(address)
        return addresses

    def locate(self, windows: Iterable[tuple[int, int]], length: int) -> list[Segment]:
        """Find the steps of windows, given as row and address; a stream's end cuts one short."""
        segments: list[Segment] = []
        for row, address in windows:
            stream = self.streams[address >> POSITION_BITS]
            position = address & POSITION_MASK
            segments += stream.segments(row, position, min(length, stream.end - position))
        return segments

    def address(self, stepid: bytes) -> int | None:
        """Address of a step id, None if the step is gone."""
        chunk = self.chunks.get(stepid[:16])
        if chunk is None:
            return None
        index = int.from_bytes(stepid[16:], "big")
        return chunk.address + index if index < chunk.length else None

    def stepid(self, address: int) -> bytes | None:
        """Step id of an address, None if the step is gone."""
        stream = self.streams.get(address >> POSITION_BITS)
        chunk = None if stream is None else stream.chunk_at(address & POSITION_MASK)
        return None if chunk is None else chunk.uuid + (address - chunk.address).to_bytes(4, "big")

    def holds(self, address: int, length: int) -> bool:
        """Whether so many steps follow each other from an address on."""
        stream = self.streams[address >> POSITION_BITS]
        return (address & POSITION_MASK) + length <= stream.end

    def new_stream(self, worker: int, chunk_size: int) -> WorkerStream:
        """Begin a stream."""
        stream = WorkerStream(next(self._numbers), worker, chunk_size)
        self.streams[stream.number] = stream
        return stream

    def _enqueue(self, address: int) -> None:
        """Put a window into the online queue; without a consumer it must not grow for ever."""
        self.queue.append(address)
        if len(self.queue) > self._queue_limit:
            present = [place for place in self.queue if self.stepid(place) is not None]
            self.queue = deque(present)
            self._queue_limit = max(self._capacity, 2 * len(present))

    def _new_chunk(self, schema: Schema, stream: WorkerStream) -> Chunk:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S%f")
        chunk = Chunk(schema, stream.chunk_size, uuid.uuid4().bytes, now)
        stream.push(chunk)
        self.chunks[chunk.uuid] = chunk
        return chunk

    def _evict(self) -> None:
        """Remove the oldest item, and what no other item reaches."""
        address = self.items.popleft()
        self.selector.remove(address)
        stream = self.streams[address >> POSITION_BITS]
        chunk = stream.retire(address & POSITION_MASK)
        if chunk is not None:
            del self.chunks[chunk.uuid]
        if stream.first_start + self.length <= stream.end:
            return
        if self.writers.get(stream.worker) is not stream:
            for chunk in stream.chunks.values():
                del self.chunks[chunk.uuid]
            del self.streams[stream.number]
            self.selector.forget(stream.base)
