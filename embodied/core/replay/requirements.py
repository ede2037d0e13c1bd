"""How much memory and disk a replay needs when it is full."""

from collections.abc import Mapping
from dataclasses import dataclass

from embodied.core.replay.schema import Schema
from embodied.core.space import Space

SERIAL_BYTES = 8
ITEM_BYTES = 8


@dataclass(frozen=True)
class Requirements:
    """Needs of a full replay.

    Attributes:
        step_bytes: Bytes per step of all keys, step id and padding included.
        length: Steps per item.
        capacity: Largest number of items, None if unlimited.
        chunksize: Steps per chunk.
        workers: Number of workers that add steps.
    """

    step_bytes: int
    length: int
    capacity: int | None
    chunksize: int
    workers: int = 1

    @classmethod
    def from_spaces(
        cls,
        spaces: Mapping[str, Space],
        length: int,
        capacity: int | None,
        chunksize: int = 1024,
        workers: int = 1,
    ) -> "Requirements":
        """Work it out before the first step, from the spaces of all stored keys."""
        step_bytes = Schema.from_spaces(spaces).step_bytes
        return cls(step_bytes, length, capacity, chunksize, workers)

    @property
    def bytes_per_step(self) -> int:
        """Bytes in memory per step, with the accounting of items."""
        return self.step_bytes + SERIAL_BYTES + ITEM_BYTES

    @property
    def steps(self) -> int | None:
        """Largest number of steps in memory, None if unlimited.

        Besides one step per item there are the last steps of each worker, which no item starts at
        yet, a chunk per worker that is being filled and one that is not quite out of reach.
        """
        if self.capacity is None:
            return None
        return self.capacity + self.workers * (self.length - 1 + 2 * self.chunksize)

    @property
    def ram_bytes(self) -> int | None:
        """Bytes in memory when full, None if unlimited."""
        return None if self.steps is None else self.steps * self.bytes_per_step

    @property
    def disk_bytes(self) -> int | None:
        """Bytes on disk when full, None if unlimited.

        There is room for files being replaced, and for the parts of each chunk being filled.
        """
        if self.steps is None:
            return None
        return (self.steps + (2 + self.workers) * self.chunksize) * (self.step_bytes + SERIAL_BYTES)

    def summary(self) -> str:
        """One line for the start of a run."""
        if self.ram_bytes is None or self.disk_bytes is None:
            return f"Replay: {self.bytes_per_step:,} bytes per step, unlimited capacity."
        return (
            f"Replay: {self.bytes_per_step:,} bytes per step, capacity {self.capacity:,} items, "
            f"{self.ram_bytes / 1024**3:.2f} GiB of memory and {self.disk_bytes / 1024**3:.2f} GiB "
            "of disk when full."
        )

    def problem(self, ram_bytes: int, disk_bytes: int) -> str | None:
        """Say what does not fit into the memory and disk that are available, None if all does."""
        parts = []
        for name, need, have in (
            ("memory", self.ram_bytes, ram_bytes),
            ("disk", self.disk_bytes, disk_bytes),
        ):
            if need is not None and need > have:
                parts.append(
                    f"{need / 1024**3:.2f} GiB of {name} when full, but {have / 1024**3:.2f} GiB "
                    "are available"
                )
        if not parts:
            return None
        return f"The replay needs {' and '.join(parts)}. Set a smaller capacity (replay.size)."
