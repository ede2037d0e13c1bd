"""The replay: add steps, sample windows of them, update their latents, save and load."""

import logging
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from embodied.core.replay.folder import ReplayFolder, Snapshot, Wanted, common_schema, restore
from embodied.core.replay.schema import STEPID_BYTES, Schema, SchemaError
from embodied.core.replay.selectors import FifoArray, Selector, Uniform, load_selector
from embodied.core.replay.stream import Streams
from embodied.core.replay.window import OnlineQueue, annotate, copy_windows, find_windows

LOGGER = logging.getLogger(__name__)
STATE_VERSION = 1
WAIT_MESSAGE_SECONDS = 30.0


class Replay:
    """Stores the steps of all workers and samples windows of consecutive steps.

    Every worker has one append-only stream, kept in chunks. An item is the window of `length`
    steps that starts at some step; windows cross the boundaries of episodes and chunks. When there
    are more than `capacity` items the oldest one goes, and memory is freed chunk by chunk. See
    `docs/replay.md`.

    Threads may add, sample, update and save at the same time. Batches are copied without the lock
    of the bookkeeping, and never alias the storage.
    """

    def __init__(
        self,
        length: int,
        capacity: int | None = None,
        directory: str | Path | None = None,
        chunksize: int = 1024,
        online: bool = False,
        selector: Selector | None = None,
        seed: int = 0,
        name: str = "replay",
        continue_streams: bool = False,
    ) -> None:
        """Create an empty replay.

        Args:
            length: Steps per item.
            capacity: Largest number of items, unlimited if None.
            directory: Folder for `save` and `load`; without one nothing is written.
            chunksize: Steps per chunk and file.
            online: Whether `sample` in mode `train` first uses up fresh windows that do not
                overlap.
            selector: How items are drawn, uniformly if None.
            seed: Seed of the uniform selector and of the draws for reports.
            name: For messages.
            continue_streams: Whether workers go on with their old streams after `load(state)`.
                This is right only if their environments continue exactly where they were saved
                or begin an episode. Otherwise every worker begins a new stream, and no window
                joins what was before to what comes after.

        Raises:
            ValueError: If a number is out of range.
        """
        if length < 1 or chunksize < 1 or (capacity is not None and capacity < 1):
            raise ValueError(
                f"Got length {length}, capacity {capacity}, chunksize {chunksize}, expected "
                "numbers of at least 1."
            )
        self.length = length
        self.capacity = capacity
        self.name = name
        self._limit = sys.maxsize if capacity is None else capacity
        self._use_online = online
        self._continue_streams = continue_streams
        self._folder = None if directory is None else ReplayFolder(directory)
        self._schema: Schema | None = None
        self._floats: dict[str, str] = {}
        self._streams = Streams(chunksize)
        # The address of the first step of every item, in the order of their last steps.
        self._items = FifoArray(np.int64)
        # An empty selector is false, so `or` would not do.
        self._selector = Uniform(seed) if selector is None else selector
        self._online = OnlineQueue(self._streams, self._limit)
        self._selector.clear()
        self._report_rng = np.random.default_rng([seed, 1])
        self._counts = {"samples": 0, "updates": 0}
        self._counted_from = 0
        self._lock = threading.Lock()
        self._filled = threading.Condition(self._lock)
        self._waiting = 0
        self._saving = threading.RLock()
        self._closed = False

    def __len__(self) -> int:
        """Number of items."""
        return len(self._items)

    @property
    def schema(self) -> Schema | None:
        """What a step consists of, None before the first step."""
        return self._schema

    @property
    def queued(self) -> int:
        """Number of fresh windows in the online queue."""
        return len(self._online)

    def add(self, step: Mapping[str, Any], worker: int = 0) -> None:
        """Append a step to the stream of a worker.

        Args:
            step: Value per key. Keys, dtypes and shapes are fixed by the first step ever stored;
                `log/` keys are left out.
            worker: Which worker it comes from.

        Raises:
            SchemaError: If a key, kind or shape differs or a float is NaN. Nothing is stored.
        """
        schema = self._schema or self._first_schema(step, worker)
        packed, columns = schema.pack(step, worker)
        with self._lock:
            length, items = self.length, self._items
            stream = self._streams.append(schema, packed, columns, worker)
            if stream is not None and (end := stream.end) >= length:
                # The window that ends with this step is a new item.
                address = stream.base + end - length
                items.append(address)
                self._selector.insert(address, length)
                # Every `length`-th window of a stream: these do not overlap.
                if self._use_online and (stream.skipped + end - 1) % length == 0:
                    self._online.push(address)
                if items.stop - items.first > self._limit:
                    self._evict()
            if self._waiting and len(items):
                self._filled.notify_all()
        if stream is None:
            schema.check_finite(step, worker)

    def sample(self, batch: int, mode: str = "train") -> dict[str, np.ndarray]:
        """Draw a batch; waits while there is no item.

        Args:
            batch: Number of rows B.
            mode: In `train`, rows come from the online queue first, then from the selector, and
                are counted. `report` and `eval` draw uniformly and change nothing, so that looking
                at the data has no influence on training.

        Returns:
            Fresh array [B, length, ...] per key and `stepid` uint8 [B, length, 20]. `is_first` is
            set in the first step and `is_last` in the step before any first one.

        Raises:
            ValueError: If the mode is unknown or the batch is empty.
            RuntimeError: If the replay was closed while empty.
        """
        if mode not in ("train", "report", "eval") or batch < 1:
            raise ValueError(
                f"Got batch {batch} and mode {mode!r}, expected at least one row and mode 'train', "
                "'report' or 'eval'."
            )
        with self._filled:
            self._wait_for_item()
            items = self._items
            if mode == "train":
                addresses = self._online.pop(batch)
                if len(addresses) < batch:
                    numbers = self._selector.sample(batch - len(addresses))
                    addresses += items.take(numbers).tolist()
                self._counts["samples"] += batch
            else:
                numbers = self._report_rng.integers(items.first, items.stop, batch)
                addresses = items.take(numbers).tolist()
            segments = find_windows(self._streams, enumerate(addresses), self.length)
        return annotate(copy_windows(segments, batch, self.length))

    def update(self, data: Mapping[str, np.ndarray]) -> None:
        """Overwrite values of steps that were sampled before, latents as a rule.

        After each training step the agent writes the latents back that it computed for the batch
        (paper, Methods, Experience replay), so that later windows start from fresh ones.

        Args:
            data: `stepid` uint8 [B, T, 20] with consecutive steps per row, stored keys
                [B, T, ...], and optionally `priority` [B, T] for selectors that take it. Rows
                whose first step was evicted meanwhile are skipped.

        Raises:
            SchemaError: If a key, kind or shape is not that of the stored steps, or a float is
                NaN. With NaN, priorities and rows before that one are updated already.
        """
        stepid = np.asarray(data["stepid"])
        if stepid.dtype != np.uint8 or stepid.ndim != 3 or stepid.shape[2] != STEPID_BYTES:
            got = f"{stepid.dtype}{stepid.shape}"
            raise SchemaError(f"Got stepid as {got}, expected uint8 [B, T, {STEPID_BYTES}].")
        if self._schema is None:
            return
        entries = {key: data[key] for key in data if key not in ("stepid", "priority")}
        values = self._schema.check_update(entries, stepid.shape[:2])
        with self._lock:
            addresses = self._streams.addresses(stepid)
            segments = find_windows(self._streams, addresses.items(), stepid.shape[1])
            if "priority" in data and self._selector.takes_priorities:
                for row, address in addresses.items():
                    self._selector.prioritize(address, np.asarray(data["priority"])[row])
            self._counts["updates"] += sum(segment.stop - segment.start for segment in segments)
        for row, time, chunk, start, stop in segments:
            until = time + stop - start
            chunk.overwrite(start, stop, {key: x[row, time:until] for key, x in values.items()})

    def stats(self) -> dict[str, float]:
        """Return metrics, and start counting inserts, samples and updates anew.

        `replay_ratio` is the number of steps sampled per step inserted since the last call.
        """
        with self._lock:
            streams = self._streams
            counts, self._counts = self._counts, dict.fromkeys(self._counts, 0)
            inserts = streams.serial - self._counted_from
            self._counted_from = streams.serial
            return {
                "items": len(self._items),
                "chunks": sum(chunk.length > 0 for chunk in streams.chunks.values()),
                "streams": sum(stream.end > 0 for stream in streams.by_number.values()),
                "ram_gb": sum(chunk.nbytes for chunk in streams.chunks.values()) / 1024**3,
                "inserts": inserts,
                **counts,
                "replay_ratio": self.length * counts["samples"] / inserts if inserts else 0.0,
            }

    def clear(self) -> None:
        """Forget all steps; files stay until the next save. Keys may be others afterwards."""
        with self._lock:
            self._clear()
            self._schema = None

    def close(self) -> None:
        """Make `sample` fail instead of waiting for the first item; always returns."""
        with self._filled:
            self._closed = True
            self._filled.notify_all()

    def save(self) -> dict[str, Any]:
        """Write what changed to the folder and return the rest of the state.

        The folder then holds exactly the chunks in memory. Chunks that are not full are written
        too and replaced by the next save.

        Raises:
            ReplaySaveError: If a file cannot be written. What failed stays marked as unsaved.
        """
        with self._saving:
            state, write = self.take()
            write()
            return state

    def take(self) -> tuple[dict[str, Any], Callable[[], None]]:
        """Do the part of `save` that is quick; return the state and what writes the chunks.

        Steps that are added meanwhile are not written, but latents that are overwritten may be.
        The state is what the files do not say: which items there are, the online queue, the
        streams that workers append to, and the selector.
        """
        with self._lock:
            streams, items = self._streams, self._items
            oldest = items.get(items.first) if len(items) else None
            state = {
                "version": STATE_VERSION,
                "schema": self._schema.to_json() if self._schema else {},
                "counts": dict(self._counts),
                "uncounted": streams.serial - self._counted_from,
                "report_rng": self._report_rng.bit_generator.state,
                "serial": streams.serial,
                "oldest_serial": streams.date(oldest, self.length),
                "items": len(items),
                "queue": self._online.save(),
                "tails": streams.tails(),
                "selector": self._selector.save(),
            }
            if self._selector.takes_priorities:
                state["priorities"] = {
                    chunk.uuid.hex(): self._selector.step_priorities(chunk.address, chunk.length)
                    for chunk in streams.chunks.values()
                }
            snapshots = [Snapshot.of(chunk) for chunk in streams.chunks.values() if chunk.length]

        def write() -> None:
            if self._folder is not None:
                with self._saving:
                    self._folder.save(snapshots)

        return state, write

    def load_floats_as(self, dtypes: Mapping[str, str]) -> None:
        """Let `load` cast floats to what they are computed in, whatever files hold.

        Args:
            dtypes: Name of the dtype by key; other keys stay as they are.
        """
        self._floats = dict(dtypes)

    def load(
        self, state: Mapping[str, Any] | None = None, directory: str | Path | None = None
    ) -> None:
        """Replace the contents by those of a folder.

        With a state, exactly the items of that save come back, in order, with the online queue
        and the selector; steps stored after it are left out. Without one the newest items come
        back. Files that are damaged or foreign are skipped with one warning each, and no window
        jumps over the gap. Items are available at once.

        Args:
            state: What `save` returned.
            directory: Folder to read instead of the replay's own.

        Raises:
            SchemaError: If a file holds other keys, kinds or shapes than this replay. The width of
                floats may differ: all become those of `load_floats_as`, else of this replay.
            ValueError: If the state is of another version.
        """
        if state is not None and state["version"] != STATE_VERSION:
            raise ValueError(
                f"Got replay state of version {state['version']}, expected {STATE_VERSION}."
            )
        folder = self._folder if directory is None else ReplayFolder(directory)
        with self._saving:
            stored = folder.scan() if folder is not None else []
            saved = Schema.from_json(state["schema"]) if state and state["schema"] else None
            schema = common_schema(stored, self._schema or saved)
            if schema is not None:
                schema = schema.with_floats(self._floats)
            restored = [] if schema is None else restore(stored, schema, self._wanted(state))
            with self._filled:
                self._clear()
                self._schema = schema
                last = max((int(part.serials[-1]) for part in stored), default=-1)
                self._streams.serial = max(self._streams.serial, last + 1)
                self._counted_from = self._streams.serial
                addresses = self._streams.adopt(restored, self.length)
                self._items.extend(addresses)
                self._selector.extend(addresses, self.length)
                if state is not None:
                    self._load_state(state)
                self._filled.notify_all()

    def _first_schema(self, step: Mapping[str, Any], worker: int) -> Schema:
        schema = Schema.from_step(step, worker)
        with self._lock:
            if self._schema is None:
                self._schema = schema
            return self._schema

    def _evict(self) -> None:
        """Remove the oldest item, and what no other item reaches."""
        address = self._items.popleft()
        self._selector.remove(address)
        stream = self._streams.retire(address, self.length)
        if stream is not None:
            self._selector.forget(stream.base)

    def _wait_for_item(self) -> None:
        while not len(self._items):
            if self._closed:
                raise RuntimeError(f"Got a draw from the closed, empty {self.name}.")
            self._waiting += 1
            try:
                if not self._filled.wait(WAIT_MESSAGE_SECONDS) and not self._closed:
                    LOGGER.warning(
                        "Sampling from the %s waits for data: there are %d steps of %d workers and "
                        "0 items; the first item needs %d steps of one worker.",
                        self.name,
                        sum(stream.end for stream in self._streams.by_number.values()),
                        len(self._streams.writers),
                        self.length,
                    )
            finally:
                self._waiting -= 1

    def _clear(self) -> None:
        self._streams.clear()
        self._items = FifoArray(np.int64)
        self._online.clear()
        self._selector.clear()

    def _wanted(self, state: Mapping[str, Any] | None) -> Wanted:
        """Which stored items to load: those of a state, or the newest."""
        if state is None:
            return Wanted(self.length, self.capacity)
        tails = state["tails"].values() if self._continue_streams else ()
        keep_open = frozenset(tail for tail, _ in tails)
        first, stop = int(state["oldest_serial"]), int(state["serial"])
        return Wanted(self.length, self.capacity, first, stop, keep_open)

    def _load_state(self, state: Mapping[str, Any]) -> None:
        """Restore counts, online queue, writers and selector, after the items."""
        self._report_rng.bit_generator.state = state["report_rng"]
        self._counts = {key: int(state["counts"][key]) for key in self._counts}
        streams = self._streams
        streams.serial = max(streams.serial, int(state["serial"]))
        self._counted_from = streams.serial - int(state["uncounted"])
        self._online.load(state["queue"], self.length)
        if self._continue_streams:
            streams.resume(state["tails"])
        for name, priorities in state.get("priorities", {}).items():
            chunk = streams.chunks.get(bytes.fromhex(name))
            if chunk is not None:
                self._selector.prioritize(chunk.address, np.asarray(priorities))
        load_selector(self._selector, state["selector"])
