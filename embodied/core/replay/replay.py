"""Replay buffer: one stream of steps per worker, sampled as windows that may start anywhere."""

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from embodied.core.replay import restore, store_state
from embodied.core.replay.assemble import annotate, assemble
from embodied.core.replay.chunk import Chunk
from embodied.core.replay.folder import ReplayFolder
from embodied.core.replay.requirements import Requirements
from embodied.core.replay.schema import STEPID_BYTES, Schema, SchemaError
from embodied.core.replay.selectors import Selector, Uniform
from embodied.core.replay.store import Store
from embodied.core.replay.worker_stream import Segment

LOGGER = logging.getLogger(__name__)
STATE_VERSION = 1
WAIT_MESSAGE_SECONDS = 30.0


class Replay:
    """Stores the steps of all workers and samples windows of consecutive steps.

    Every worker has one append-only stream, kept in chunks. An item is the window of `length`
    steps that starts at some step; windows cross the boundaries of episodes and chunks. When there
    are more than `capacity` items the oldest one goes, and memory is freed chunk by chunk (spec
    rows 5.1 to 5.6).

    Time in a window, each step a column; the action is chosen after the observation and the latent
    of the same step, and the reward is for the action of the step before:

        step         0 (context)  1                  t           length - 1
        observation  x[0]         x[1]               x[t]        x[length-1]
        reward       r[0]         r[1] for a[0]      r[t]        r[length-1]
        latent       h[0], z[0]   computed from h[0], z[0], a[0], x[1], then step by step
        action       a[0]         a[1]               a[t]        a[length-1], for a next window

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
                overlap (spec row 5.4).
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
        self._continue_streams = continue_streams
        self._folder = None if directory is None else ReplayFolder(directory)
        # An empty selector is false, so `or` would not do.
        selector = Uniform(seed) if selector is None else selector
        self._store = Store(length, capacity, chunksize, online, selector)
        self._report_rng = np.random.default_rng([seed, 1])
        self._schema: Schema | None = None
        self._counts = {"samples": 0, "updates": 0}
        self._counted_from = 0
        self._lock = threading.Lock()
        self._filled = threading.Condition(self._lock)
        self._waiting = 0
        self._saving = threading.RLock()
        self._closed = False

    def __len__(self) -> int:
        """Number of items."""
        return len(self._store.items)

    @property
    def schema(self) -> Schema | None:
        """What a step consists of, None before the first step."""
        return self._schema

    @property
    def queued(self) -> int:
        """Number of fresh windows in the online queue."""
        return len(self._store.queue)

    def add(self, step: Mapping[str, Any], worker: int = 0) -> None:
        """Append a step to the stream of a worker.

        Args:
            step: Value per key. Keys, dtypes and shapes are fixed by the first step ever stored;
                `log/` keys are left out.
            worker: Which worker it comes from.

        Raises:
            SchemaError: If a key, dtype or shape differs or a float is NaN. Nothing is stored.
        """
        schema = self._schema or self._first_schema(step, worker)
        packed, columns = schema.pack(step, worker)
        with self._lock:
            stored = self._store.add(schema, packed, columns, worker)
            if self._waiting and len(self._store.items):
                self._filled.notify_all()
        if not stored:
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
            if mode == "train":
                addresses = self._store.pop_online(batch)
                if len(addresses) < batch:
                    addresses += self._store.draw(batch - len(addresses))
            else:
                addresses = self._store.draw_uniformly(batch, self._report_rng)
            segments = self._store.locate(enumerate(addresses), self.length)
            self._counts["samples"] += batch if mode == "train" else 0
        return annotate(assemble(segments, batch, self.length))

    def update(self, data: Mapping[str, np.ndarray]) -> None:
        """Overwrite values of steps that were sampled before, latents as a rule (spec row 5.9).

        Args:
            data: `stepid` uint8 [B, T, 20] with consecutive steps per row, stored keys
                [B, T, ...], and optionally `priority` [B, T] for selectors that take it. Rows
                whose first step was evicted meanwhile are skipped.

        Raises:
            SchemaError: If a key, dtype or shape is not that of the stored steps, or a float is
                NaN. Rows before the one with NaN are updated, nothing else is changed.
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
            places, addresses = self._places(stepid)
            if "priority" in data and self._store.selector.takes_priorities:
                for row, address in addresses.items():
                    self._store.selector.prioritize(address, np.asarray(data["priority"])[row])
            self._counts["updates"] += sum(place.stop - place.start for place in places)
        for row, time, chunk, start, stop in places:
            until = time + stop - start
            chunk.overwrite(start, stop, {key: x[row, time:until] for key, x in values.items()})

    def stats(self) -> dict[str, float]:
        """Return metrics, and start counting inserts, samples and updates anew.

        `replay_ratio` is the number of steps sampled per step inserted since the last call.
        """
        with self._lock:
            counts, self._counts = self._counts, dict.fromkeys(self._counts, 0)
            inserts = self._store.serial - self._counted_from
            self._counted_from = self._store.serial
            return {
                "items": len(self._store.items),
                "chunks": sum(chunk.length > 0 for chunk in self._store.chunks.values()),
                "streams": sum(stream.end > 0 for stream in self._store.streams.values()),
                "ram_gb": sum(chunk.nbytes for chunk in self._store.chunks.values()) / 1024**3,
                "inserts": inserts,
                **counts,
                "replay_ratio": self.length * counts["samples"] / inserts if inserts else 0.0,
            }

    def requirements(self, workers: int = 1) -> Requirements | None:
        """What the replay will need when it is full, None before the first step."""
        if self._schema is None:
            return None
        chunksize = self._store.chunksize
        return Requirements(self._schema.step_bytes, self.length, self.capacity, chunksize, workers)

    def clear(self) -> None:
        """Forget all steps; files stay until the next save. Keys may be others afterwards."""
        with self._lock:
            self._store.clear()
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
        """
        with self._lock:
            state = {
                "version": STATE_VERSION,
                "schema": self._schema.to_json() if self._schema else {},
                "counts": dict(self._counts),
                "uncounted": self._store.serial - self._counted_from,
                "report_rng": self._report_rng.bit_generator.state,
                **store_state.save_state(self._store),
            }
            snapshots = store_state.snapshots(self._store)

        def write() -> None:
            if self._folder is not None:
                with self._saving:
                    self._folder.save(snapshots)

        return state, write

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
            SchemaError: If a file holds other keys, dtypes or shapes than this replay.
            ValueError: If the state is of another version.
        """
        if state is not None and state["version"] != STATE_VERSION:
            raise ValueError(
                f"Got replay state of version {state['version']}, expected {STATE_VERSION}."
            )
        folder = self._folder if directory is None else ReplayFolder(directory)
        with self._saving:
            stored = folder.scan() if folder is not None else []
            schema = self._schema or restore.stored_schema(state, stored)
            chains: list[restore.Chain] = []
            chunks: dict[str, Chunk] = {}
            if schema is not None:
                restore.check_schemas(stored, schema)
                limits = store_state.limits(self._store, state, self._continue_streams)
                chains, chunks = restore.restore_chains(stored, schema, limits)
            with self._filled:
                self._store.clear()
                self._schema = schema
                last = max((int(part.serials[-1]) for part in stored), default=-1)
                self._store.serial = max(self._store.serial, last + 1)
                self._counted_from = self._store.serial
                store_state.adopt(self._store, chains, chunks)
                if state is not None:
                    self._report_rng.bit_generator.state = state["report_rng"]
                    self._counts = {key: int(state["counts"][key]) for key in self._counts}
                    store_state.load_state(self._store, state, self._continue_streams)
                    self._counted_from = self._store.serial - int(state["uncounted"])
                self._filled.notify_all()

    def _first_schema(self, step: Mapping[str, Any], worker: int) -> Schema:
        schema = Schema.from_step(step, worker)
        with self._lock:
            if self._schema is None:
                self._schema = schema
            return self._schema

    def _places(self, stepid: np.ndarray) -> tuple[list[Segment], dict[int, int]]:
        """Where the rows of an update go, and the address of each row that is still there."""
        rows, steps = stepid.shape[:2]
        first, last = stepid[:, 0].tobytes(), stepid[:, -1].tobytes()
        found: dict[int, int] = {}
        for row in range(rows):
            place = slice(row * STEPID_BYTES, (row + 1) * STEPID_BYTES)
            address = self._store.address(first[place])
            if address is None:
                continue
            if self._store.address(last[place]) not in (address + steps - 1, None):
                raise SchemaError(f"Got step ids in row {row} that are not consecutive steps.")
            found[row] = address
        return self._store.locate(found.items(), steps), found

    def _wait_for_item(self) -> None:
        while not len(self._store.items):
            if self._closed:
                raise RuntimeError(f"Got a draw from the closed, empty {self.name}.")
            self._waiting += 1
            try:
                if not self._filled.wait(WAIT_MESSAGE_SECONDS) and not self._closed:
                    LOGGER.warning(
                        "Sampling from the %s waits for data: there are %d steps of %d workers and "
                        "0 items; the first item needs %d steps of one worker.",
                        self.name,
                        sum(stream.end for stream in self._store.streams.values()),
                        len(self._store.writers),
                        self.length,
                    )
            finally:
                self._waiting -= 1
