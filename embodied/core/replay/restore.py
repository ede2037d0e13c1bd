"""What of a folder of chunk files belongs into memory, and how it hangs together."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from embodied.core.replay.chunk import Chunk
from embodied.core.replay.chunk_file import ChunkFileError, read_chunk
from embodied.core.replay.folder import StoredChunk, in_threads
from embodied.core.replay.schema import Schema, SchemaError

LOGGER = logging.getLogger(__name__)


@dataclass
class Chain:
    """Chunks that follow each other without a gap.

    Attributes:
        parts: The chunks in order; all but the last are full.
        serials: Serial numbers of all steps, int64 [steps].
        starts: Positions at which a wanted item starts, ascending.
    """

    parts: list[StoredChunk]
    serials: np.ndarray
    starts: np.ndarray

    @property
    def needed(self) -> list[StoredChunk]:
        """The chunks that the wanted items reach, all if there are none yet."""
        if not len(self.starts):
            return self.parts
        return self.parts[int(self.starts[0]) // self.parts[0].header.size :]


@dataclass(frozen=True)
class Limits:
    """Which of the stored items are wanted.

    Attributes:
        length: Steps per item.
        capacity: Largest number of items; the newest are kept.
        first_serial: Smallest serial number of the last step of an item.
        stop_serial: Serial number below which the ones of all steps lie.
        keep_open: UUIDs of last chunks whose chain is kept although it has no item yet.
    """

    length: int
    capacity: int | None
    first_serial: int
    stop_serial: int | None
    keep_open: frozenset[str]


def check_schemas(stored: Sequence[StoredChunk], expected: Schema) -> None:
    """Refuse files that hold other keys, dtypes or shapes.

    Raises:
        SchemaError: Naming the file and the difference.
    """
    reference = expected.to_json()
    for part in stored:
        if part.header.schema != reference:
            difference = expected.difference(Schema.from_json(part.header.schema))
            raise SchemaError(
                f"Got {part.path} with other data than this replay stores: {difference}. Use a new "
                "folder, or move the file away."
            )


def trim(stored: Sequence[StoredChunk], stop_serial: int | None) -> list[StoredChunk]:
    """Leave out all steps that were stored after a point in time."""
    if stop_serial is None:
        return list(stored)
    result = []
    for part in stored:
        length = int(np.searchsorted(part.serials, stop_serial))
        if length:
            result.append(part._replace(serials=part.serials[:length]))
    return result


def link(stored: Sequence[StoredChunk]) -> list[list[StoredChunk]]:
    """Join chunks to chains; a chunk that is missing or not full ends a chain."""
    by_uuid = {part.header.uuid: part for part in stored}
    following = {}
    for part in stored:
        after = by_uuid.get(part.header.successor)
        full = len(part.serials) == part.header.size
        if after is not None and full and after.header.size == part.header.size:
            following[part.header.uuid] = after
    continued = {part.header.uuid for part in following.values()}
    chains = []
    for part in stored:
        if part.header.uuid in continued:
            continue
        chain = [part]
        while chain[-1].header.uuid in following:
            chain.append(following[chain[-1].header.uuid])
        chains.append(chain)
    return chains


def choose(chains: Sequence[list[StoredChunk]], limits: Limits) -> list[Chain]:
    """Find the wanted items of every chain."""
    result = []
    for parts in chains:
        serials = np.concatenate([part.serials for part in parts])
        # An item came into being with its last step, which dates it.
        keys = serials[limits.length - 1 :]
        result.append(Chain(parts, serials, np.flatnonzero(keys >= limits.first_serial)))
    if limits.capacity is not None and result:
        keys = np.concatenate([item_keys(chain, limits.length) for chain in result])
        if len(keys) > limits.capacity:
            oldest = np.partition(keys, -limits.capacity)[-limits.capacity]
            for chain in result:
                chain.starts = chain.starts[item_keys(chain, limits.length) >= oldest]
    return [
        chain
        for chain in result
        if len(chain.starts) or chain.parts[-1].header.uuid in limits.keep_open
    ]


def item_keys(chain: Chain, length: int) -> np.ndarray:
    """Serial number of the last step of every wanted item."""
    return chain.serials[chain.starts + length - 1]


def stored_schema(state: Mapping[str, Any] | None, stored: Sequence[StoredChunk]) -> Schema | None:
    """What files must hold: what a saved state says, else what the newest file has."""
    if state is not None and state["schema"]:
        return Schema.from_json(state["schema"])
    if stored:
        newest = max(stored, key=lambda part: part.serials[-1])
        return Schema.from_json(newest.header.schema)
    return None


def restore_chains(
    stored: Sequence[StoredChunk], schema: Schema, limits: Limits
) -> tuple[list[Chain], dict[str, Chunk]]:
    """Read what is wanted; warn once for every file that turns out to be damaged.

    Args:
        stored: What the folder has.
        schema: What every file has to hold.
        limits: What is wanted.

    Returns:
        Chains with their wanted items, and all their chunks by UUID.
    """

    def read(part: StoredChunk) -> Chunk | ChunkFileError:
        return _read(part, schema, limits)

    available = trim(stored, limits.stop_serial)
    chunks: dict[str, Chunk] = {}
    while True:
        chains = choose(link(available), limits)
        wanted = [part for chain in chains for part in chain.needed]
        missing = [part for part in wanted if part.header.uuid not in chunks]
        if not missing:
            return chains, chunks
        damaged = set()
        for part, result in zip(missing, in_threads(read, missing), strict=True):
            if isinstance(result, ChunkFileError):
                LOGGER.warning("Skipping a damaged file in the replay folder: %s", result)
                damaged.add(part.header.uuid)
            else:
                chunks[part.header.uuid] = result
        available = [part for part in available if part.header.uuid not in damaged]


def _read(part: StoredChunk, schema: Schema, limits: Limits) -> Chunk | ChunkFileError:
    try:
        header, arrays, _ = read_chunk(part.path)
    except ChunkFileError as error:
        return error
    length = len(part.serials)
    # Only a chunk that may be continued needs room for more steps than it has.
    rows = header.size if header.uuid in limits.keep_open else length
    chunk = Chunk(schema, header.size, bytes.fromhex(header.uuid), header.created, rows)
    chunk.fill({key: value[:length] for key, value in arrays.items()}, part.serials)
    chunk.successor = bytes.fromhex(header.successor) or None
    chunk.saved_version = chunk.version
    if length < header.length:
        chunk.version += 1
    return chunk
