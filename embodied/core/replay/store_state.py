"""State of a store beside its chunk files, and how a store is rebuilt from both."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from embodied.core.replay import restore
from embodied.core.replay.chunk import Chunk
from embodied.core.replay.chunk_file import ChunkHeader
from embodied.core.replay.folder import Snapshot
from embodied.core.replay.schema import STEPID_BYTES
from embodied.core.replay.store import Store
from embodied.core.replay.worker_stream import POSITION_BITS, POSITION_MASK

LOGGER = logging.getLogger(__name__)


def snapshots(store: Store) -> list[Snapshot]:
    """All chunks as they are to be on disk."""
    result = []
    for chunk in store.chunks.values():
        if chunk.length:
            header = ChunkHeader(
                uuid=chunk.uuid.hex(),
                created=chunk.created,
                worker=store.streams[chunk.address >> POSITION_BITS].worker,
                size=chunk.size,
                length=chunk.length,
                successor=chunk.successor.hex() if chunk.successor else "",
                schema=chunk.schema.to_json(),
            )
            result.append(Snapshot(chunk, header, chunk.version))
    return result


def save_state(store: Store) -> dict[str, Any]:
    """What the chunk files do not say: where items begin and end, online queue, selector."""
    queue = [place for place in map(store.stepid, store.queue) if place is not None]
    state: dict[str, Any] = {
        "serial": store.serial,
        "oldest_serial": _oldest_serial(store),
        "items": len(store.items),
        "queue": np.frombuffer(b"".join(queue), np.uint8).reshape(-1, STEPID_BYTES).copy(),
        "tails": {
            str(worker): [chunk.uuid.hex(), stream.skipped + stream.end]
            for worker, stream in store.writers.items()
            # Not the newest chunk, which is empty if the first step for it was refused.
            if (chunk := stream.chunk_at(stream.end - 1)) is not None
        },
        "selector": store.selector.save(),
    }
    if store.selector.takes_priorities:
        state["priorities"] = {
            chunk.uuid.hex(): store.selector.step_priorities(chunk.address, chunk.length)
            for chunk in store.chunks.values()
        }
    return state


def limits(store: Store, state: Mapping[str, Any] | None, continued: bool) -> restore.Limits:
    """Which stored items are wanted: those of a state, or the newest.

    Args:
        store: For length and capacity.
        state: What `save_state` returned.
        continued: Whether workers go on with their old streams.
    """
    none = frozenset[str]()
    if state is None:
        return restore.Limits(store.length, store.capacity, 0, None, none)
    return restore.Limits(
        length=store.length,
        capacity=store.capacity,
        first_serial=int(state["oldest_serial"]),
        stop_serial=int(state["serial"]),
        keep_open=frozenset(tail for tail, _ in state["tails"].values()) if continued else none,
    )


def adopt(store: Store, chains: Sequence[restore.Chain], chunks: Mapping[str, Chunk]) -> None:
    """Make streams of chains, and items in the order in which they were inserted."""
    addresses, keys = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for chain in chains:
        parts = chain.needed
        header = parts[0].header
        stream = store.new_stream(header.worker, header.size)
        for part in parts:
            chunk = chunks[part.header.uuid]
            stream.push(chunk)
            store.chunks[chunk.uuid] = chunk
        starts = chain.starts - (len(chain.parts) - len(parts)) * header.size
        none_yet = max(stream.end - store.length + 1, 0)
        stream.first_start = int(starts[0]) if len(starts) else none_yet
        addresses.append(stream.base + starts)
        keys.append(restore.item_keys(chain, store.length))
    order = np.argsort(np.concatenate(keys), kind="stable")
    ordered = np.concatenate(addresses)[order]
    store.items.extend(ordered)
    store.selector.extend(ordered, store.length)


def load_state(store: Store, state: Mapping[str, Any], continued: bool) -> None:
    """Restore online queue, writers and selector, after `adopt`."""
    store.serial = max(store.serial, int(state["serial"]))
    for row in np.asarray(state["queue"], np.uint8):
        address = store.address(bytes(row))
        # The rest of a window may be lost though its first step is there.
        if address is not None and store.holds(address, store.length):
            store.queue.append(address)
    if continued:
        streams = list(store.streams.values())
        tails = {stream.tail.uuid.hex(): stream for stream in streams if stream.tail is not None}
        for worker, (tail, steps) in state["tails"].items():
            if tail in tails:
                stream = store.writers[int(worker)] = tails[tail]
                # Which windows enter the online queue follows from the steps since the beginning.
                stream.skipped = int(steps) - stream.end
    for name, priorities in state.get("priorities", {}).items():
        chunk = store.chunks.get(bytes.fromhex(name))
        if chunk is not None:
            store.selector.prioritize(chunk.address, np.asarray(priorities))
    saved = state["selector"]["kind"]
    if saved == store.selector.kind:
        store.selector.load(state["selector"])
    else:
        LOGGER.warning(
            "The replay was saved with selector %s and goes on with %s: its random numbers and "
            "places start afresh, the items are the same.",
            saved,
            store.selector.kind,
        )


def _oldest_serial(store: Store) -> int:
    """Serial number of the last step of the oldest item, which is what dates an item."""
    if not len(store.items):
        return store.serial
    address = store.items.get(store.items.first) + store.length - 1
    chunk = store.streams[address >> POSITION_BITS].chunk_at(address & POSITION_MASK)
    assert chunk is not None, "all steps of an item are present"
    return int(chunk.serials[address - chunk.address])
