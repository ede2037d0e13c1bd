"""The chunk files of one replay: what is written and deleted, and what of it is loaded again."""

import dataclasses
import logging
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from embodied.core.replay.chunk import Chunk, SavedChunk
from embodied.core.replay.chunk_file import (
    PART_SUFFIX,
    SUFFIX,
    TEMPORARY_SUFFIX,
    ChunkFileError,
    ChunkHeader,
    read_chunk,
    write_chunk,
    write_part,
)
from embodied.core.replay.schema import Schema, SchemaError
from embodied.core.replay.stream import Restored

LOGGER = logging.getLogger(__name__)
THREADS = 2
MOST_PARTS = 32

Input = TypeVar("Input")
Output = TypeVar("Output")


class ReplaySaveError(OSError):
    """The replay could not be written; what failed stays marked as unsaved."""


class Snapshot(NamedTuple):
    """What of a chunk has to be saved.

    Attributes:
        chunk: The chunk.
        header: What the file will say.
        version: Version of the chunk at the time.
    """

    chunk: Chunk
    header: ChunkHeader
    version: int

    @classmethod
    def of(cls, chunk: Chunk) -> "Snapshot":
        """What of a chunk has to be saved now."""
        return cls(chunk, ChunkHeader.of(chunk), chunk.version)


class StoredChunk(NamedTuple):
    """A chunk file that looks sound from outside.

    Attributes:
        path: Where it is.
        header: What it says.
        serials: Serial numbers of its steps that are wanted, int64 [steps].
    """

    path: Path
    header: ChunkHeader
    serials: np.ndarray


class ReplayFolder:
    """Folder of chunk files: one per chunk, and parts of those that are being filled.

    Files that this object neither wrote nor scanned are never touched.

    Attributes:
        path: The folder. It is created when something is saved.
    """

    def __init__(self, path: str | Path) -> None:
        """Refer to a folder, which need not exist."""
        self.path = Path(path).expanduser()
        self._known: set[str] = set()

    def save(self, snapshots: Sequence[Snapshot]) -> None:
        """Write all chunks that changed or whose file is missing, then delete all other chunks.

        Args:
            snapshots: All chunks that are to be on disk afterwards.

        Raises:
            ReplaySaveError: If a file could not be written. Others may have been.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            present = {path.name for path in self.path.iterdir()}
            changed = [
                snapshot
                for snapshot in snapshots
                if snapshot.version != snapshot.chunk.saved_version
                or snapshot.header.filename not in present
            ]
            # A chunk whose file is gone has to be written as a whole.
            for snapshot in changed:
                if snapshot.header.filename not in present:
                    snapshot.chunk.saved = None
            for _ in _in_threads(self._write, changed):
                pass
            self._delete(present, snapshots)
        except OSError as error:
            raise ReplaySaveError(
                f"Got {error.strerror or error} while saving the replay to {self.path}, expected a "
                "writable folder with free space. What failed stays unsaved until the next save."
            ) from error

    def scan(self) -> list[StoredChunk]:
        """Find all sound chunk files, oldest first; warn once for each other `.npz` file."""
        if not self.path.is_dir():
            return []
        found: dict[str, StoredChunk] = {}
        paths = sorted(path for path in self.path.iterdir() if path.suffix == SUFFIX)
        for path, result in zip(paths, _in_threads(_read_serials, paths), strict=True):
            if isinstance(result, ChunkFileError):
                LOGGER.warning(
                    "Skipping a damaged or foreign file in the replay folder: %s", result
                )
                continue
            header, _, serials = result
            if path.name != header.filename:
                LOGGER.warning(
                    "Skipping a renamed file in the replay folder: %s, expected the name %s.",
                    path.name,
                    header.filename,
                )
                continue
            self._known.add(path.name)
            found[header.uuid] = StoredChunk(path, header, serials)
        return list(found.values())

    def _write(self, snapshot: Snapshot) -> None:
        """Write what has changed as a further part, or the whole chunk where that is no more."""
        chunk, header, version = snapshot
        saved, chunk.saved = chunk.saved, None  # Not known if writing fails.
        fresh = 0 if saved is None else chunk.changed_bytes(saved.length, header.length)
        if saved is None or not _may_grow(saved, fresh, header):
            header = dataclasses.replace(header, token=uuid.uuid4().hex[:8])
            arrays = chunk.export(header.length)
            write_chunk(self.path, header, arrays, chunk.serials[: header.length].copy())
            size = header.length * chunk.schema.step_bytes
            saved = SavedChunk(header.token, header.length, 0, size, 0)
        else:
            header = dataclasses.replace(header, token=saved.token)
            changes = chunk.export_changes(saved.length, header.length)
            serials = chunk.serials[saved.length : header.length].copy()
            write_part(self.path, saved.parts + 1, header, changes, serials)
            saved = saved._replace(
                length=header.length, parts=saved.parts + 1, part_bytes=saved.part_bytes + fresh
            )
        chunk.saved, chunk.saved_version = saved, version
        self._known.add(header.filename)

    def _delete(self, present: set[str], snapshots: Sequence[Snapshot]) -> None:
        """Delete what is not wanted: parts before their file, so that none is left behind."""
        wanted = {snapshot.header.filename for snapshot in snapshots}
        # A chunk that was loaded and did not change has the parts that it came with.
        tokens = {x.header.filename: x.chunk.saved.token for x in snapshots if x.chunk.saved}
        for name in present:
            stem, _, rest = name.partition(".")
            file, token = f"{stem}{SUFFIX}", rest.partition(".")[0]
            if not name.endswith(PART_SUFFIX) or file not in self._known:
                continue
            if file not in wanted or tokens.get(file, token) != token:
                (self.path / name).unlink(missing_ok=True)
        leftovers = {name for name in present if name.endswith(TEMPORARY_SUFFIX)}
        for name in (self._known & present - wanted) | leftovers:
            if not (self.path / name).is_dir():  # A folder is not ours.
                (self.path / name).unlink(missing_ok=True)
        self._known &= wanted


def _may_grow(saved: SavedChunk, fresh: int, header: ChunkHeader) -> bool:
    """Whether a chunk gets a part, rather than being written as a whole.

    Only chunks that are still being filled have parts, which together take less than their file.
    So what is written stays in proportion to what has changed, and the folder hardly grows.
    """
    if header.length == header.size or header.length < saved.length:
        return False
    return saved.part_bytes + fresh < saved.whole_bytes and saved.parts < MOST_PARTS


@dataclass(frozen=True)
class Wanted:
    """Which of the stored items are to be loaded.

    Attributes:
        length: Steps per item.
        capacity: Largest number of items; the newest are kept.
        first_serial: Smallest serial number of the last step of an item.
        stop_serial: Serial number of the first step that is left out.
        keep_open: UUIDs of last chunks whose stream is kept although it has no item yet, because
            a worker goes on with it.
    """

    length: int
    capacity: int | None
    first_serial: int = 0
    stop_serial: int = sys.maxsize
    keep_open: frozenset[str] = frozenset()


def common_schema(stored: Sequence[StoredChunk], expected: Schema | None) -> Schema | None:
    """What all files hold but for the width of floats; None if nothing is there or expected.

    Args:
        stored: What a folder has.
        expected: What the files have to hold, that of the newest one if None.

    Raises:
        SchemaError: Naming the first file with other keys, dtypes or shapes, and the difference.
    """
    if expected is None and stored:
        newest = max(stored, key=lambda part: part.serials[-1])
        expected = Schema.from_json(newest.header.schema)
    reference = {} if expected is None else expected.to_json()
    for part in stored:
        if expected is not None and part.header.schema != reference:
            difference = expected.difference(Schema.from_json(part.header.schema))
            if difference:
                raise SchemaError(
                    f"Got {part.path} with other data than this replay stores: {difference}. Use a "
                    "new folder, or move the file away."
                )
    return expected


def stored_difference(path: str | Path, expected: Schema, more: bool = False) -> str | None:
    """Describe how a sound chunk file of a folder differs from what is expected, None if none does.

    Args:
        path: The folder, which need not exist.
        expected: What the files have to hold; floats may be of another width.
        more: Whether they may hold more keys.
    """
    folder = Path(path).expanduser()
    paths = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    checked: list[dict[str, Any]] = []
    for result in _in_threads(_read_serials, paths):
        if isinstance(result, ChunkFileError) or (schema := result[0].schema) in checked:
            continue
        if difference := expected.difference(Schema.from_json(schema), more):
            return difference
        checked.append(schema)
    return None


def restore(stored: Sequence[StoredChunk], schema: Schema, wanted: Wanted) -> list[Restored]:
    """Read what is wanted; warn once for every file that turns out to be damaged.

    Args:
        stored: What the folder has.
        schema: What every file holds; floats are cast to the width that it has.
        wanted: Which items are to be loaded.
    """

    def read(part: StoredChunk) -> Chunk | ChunkFileError:
        return _read(part, schema, part.header.uuid in wanted.keep_open)

    available = []
    for part in stored:
        length = int(np.searchsorted(part.serials, wanted.stop_serial))
        if length:
            available.append(part._replace(serials=part.serials[:length]))
    chunks: dict[str, Chunk] = {}
    while True:
        chosen = _choose(link(available), wanted)
        missing = [part for parts, _, _ in chosen for part in parts]
        missing = [part for part in missing if part.header.uuid not in chunks]
        if not missing:
            break
        damaged = set()
        for part, result in zip(missing, _in_threads(read, missing), strict=True):
            if isinstance(result, ChunkFileError):
                LOGGER.warning("Skipping a damaged file in the replay folder: %s", result)
                damaged.add(part.header.uuid)
            else:
                chunks[part.header.uuid] = result
        # A chunk that is lost is a gap: its stream falls into two.
        available = [part for part in available if part.header.uuid not in damaged]
    return [
        Restored([chunks[part.header.uuid] for part in parts], starts, dates)
        for parts, starts, dates in chosen
    ]


def link(stored: Sequence[StoredChunk]) -> list[list[StoredChunk]]:
    """Join chunks that follow each other; where one is missing or not full, there is a gap.

    Returns:
        Chunks in order for every stream, all of them full but the last.
    """
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


def _choose(
    chains: Sequence[list[StoredChunk]], wanted: Wanted
) -> list[tuple[list[StoredChunk], np.ndarray, np.ndarray]]:
    """Find the wanted items of every stream; return what they reach, `starts` and `dates`."""
    dates = [np.concatenate([x.serials for x in parts])[wanted.length - 1 :] for parts in chains]
    oldest = wanted.first_serial
    if wanted.capacity is not None and dates:
        candidates = np.concatenate(dates)
        candidates = candidates[candidates >= oldest]
        if len(candidates) > wanted.capacity:
            oldest = int(np.partition(candidates, -wanted.capacity)[-wanted.capacity])
    result = []
    for parts, own in zip(chains, dates, strict=True):
        starts = np.flatnonzero(own >= oldest)
        if len(starts):
            gone = int(starts[0]) // parts[0].header.size
            moved = starts - gone * parts[0].header.size
            result.append((parts[gone:], moved, own[starts]))
        elif parts[-1].header.uuid in wanted.keep_open:
            result.append((parts, starts, own[starts]))
    return result


def _read(part: StoredChunk, schema: Schema, keep_open: bool) -> Chunk | ChunkFileError:
    try:
        header, arrays, _ = read_chunk(part.path)
    except ChunkFileError as error:
        return error
    length = len(part.serials)
    # Only a chunk that may be continued needs room for more steps than it has.
    rows = header.size if keep_open else length
    name = bytes.fromhex(header.uuid)
    chunk = Chunk(schema, header.worker, header.size, name, header.created, rows)
    chunk.fill({key: value[:length] for key, value in arrays.items()}, part.serials)
    chunk.successor = bytes.fromhex(header.successor) or None
    chunk.saved_version = chunk.version
    if length < header.length:
        chunk.version += 1
    return chunk


def _read_serials(
    path: Path,
) -> tuple[ChunkHeader, dict[str, np.ndarray], np.ndarray] | ChunkFileError:
    try:
        return read_chunk(path, keys=())
    except ChunkFileError as error:
        return error


def _in_threads(function: Callable[[Input], Output], inputs: Iterable[Input]) -> Iterator[Output]:
    """Apply a function in a few threads; an error stops what has not begun and is raised."""
    with ThreadPoolExecutor(THREADS, "replay-files") as executor:
        try:
            yield from executor.map(function, inputs)
        except BaseException:
            executor.shutdown(cancel_futures=True)
            raise
