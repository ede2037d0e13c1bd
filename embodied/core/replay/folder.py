"""The chunk files of one replay: writing what changed, deleting what is out of reach."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from embodied.core.replay.chunk import Chunk
from embodied.core.replay.chunk_file import (
    SUFFIX,
    TEMPORARY_SUFFIX,
    ChunkFileError,
    ChunkHeader,
    read_serials,
    write_chunk,
)

LOGGER = logging.getLogger(__name__)
THREADS = 2

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


class StoredChunk(NamedTuple):
    """A chunk file that looks sound from outside.

    Attributes:
        path: Where it is.
        header: What it says.
        serials: Serial numbers of its steps, int64 [length].
    """

    path: Path
    header: ChunkHeader
    serials: np.ndarray


class ReplayFolder:
    """Folder of chunk files, one per chunk.

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
            for _ in in_threads(self._write, changed):
                pass
            wanted = {snapshot.header.filename for snapshot in snapshots}
            self._delete(present, wanted)
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
        for path, result in zip(paths, in_threads(_try_read_serials, paths), strict=True):
            if isinstance(result, ChunkFileError):
                LOGGER.warning(
                    "Skipping a damaged or foreign file in the replay folder: %s", result
                )
                continue
            header, serials = result
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
        chunk, header, version = snapshot
        arrays = chunk.export(header.length)
        write_chunk(self.path, header, arrays, chunk.serials[: header.length].copy())
        chunk.saved_version = version
        self._known.add(header.filename)

    def _delete(self, present: set[str], wanted: set[str]) -> None:
        leftovers = {name for name in present if name.endswith(TEMPORARY_SUFFIX)}
        for name in (self._known & present - wanted) | leftovers:
            (self.path / name).unlink(missing_ok=True)
        self._known &= wanted


def in_threads(function: Callable[[Input], Output], inputs: Iterable[Input]) -> Iterator[Output]:
    """Apply a function in a few threads; an error stops what has not begun and is raised."""
    with ThreadPoolExecutor(THREADS, "replay-files") as executor:
        try:
            yield from executor.map(function, inputs)
        except BaseException:
            executor.shutdown(cancel_futures=True)
            raise


def _try_read_serials(path: Path) -> tuple[ChunkHeader, np.ndarray] | ChunkFileError:
    try:
        return read_serials(path)
    except ChunkFileError as error:
        return error
