"""The unbroken sequence of steps of one worker, as a chain of chunks."""

from typing import NamedTuple

from embodied.core.replay.chunk import Chunk

POSITION_BITS = 40
POSITION_MASK = (1 << POSITION_BITS) - 1


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


class WorkerStream:
    """Chunks of equal size that follow each other, without a step missing in between.

    A step is addressed by one integer, its *address*: stream number times `2 ** POSITION_BITS`
    plus position in the stream. Consecutive steps have consecutive addresses.

    Attributes:
        number: Unique number of the stream.
        worker: Index of the worker that wrote it.
        chunk_size: Steps per chunk.
        chunks: Present chunks by their number, which is position divided by size. Old ones go
            first; what is left has no holes.
        first_start: Position of the oldest step that is still the start of an item, or that will
            be the start of the next item.
        end: Position after the newest step.
        skipped: Steps of the stream before position 0, which a save left behind.
        tail: The newest chunk.
    """

    __slots__ = (
        "base",
        "chunk_size",
        "chunks",
        "end",
        "first_start",
        "number",
        "skipped",
        "tail",
        "worker",
    )

    def __init__(self, number: int, worker: int, chunk_size: int) -> None:
        """Create an empty stream."""
        self.number = number
        self.worker = worker
        self.chunk_size = chunk_size
        self.base = number << POSITION_BITS
        self.chunks: dict[int, Chunk] = {}
        self.first_start = 0
        self.end = 0
        self.skipped = 0
        self.tail: Chunk | None = None

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

    def chunk_at(self, position: int) -> Chunk | None:
        """The chunk in which a step lies, None if it is gone or not there yet."""
        return self.chunks.get(position // self.chunk_size)

    def segments(self, row: int, position: int, length: int) -> list[Segment]:
        """Split the window of `length` steps at a position into parts within one chunk."""
        size = self.chunk_size
        number, start = divmod(position, size)
        parts, time = [], 0
        while time < length:
            count = min(size - start, length - time)
            parts.append(Segment(row, time, self.chunks[number], start, start + count))
            time, number, start = time + count, number + 1, 0
        return parts

    def retire(self, position: int) -> Chunk | None:
        """Note that the item that starts at a position is gone; return a chunk that goes with it.

        Items of a stream go in order, so a chunk is out of reach once its last step is no longer
        a start.
        """
        self.first_start = position + 1
        if self.first_start % self.chunk_size:
            return None
        return self.chunks.pop(position // self.chunk_size, None)
