"""Stored streams of steps, cut into episodes."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from embodied.core.replay.chunk_file import ChunkFileError, read_chunk
from embodied.core.replay.folder import LOGGER, ReplayFolder, StoredChunk
from embodied.core.replay.restore import link

FLAGS = ("is_first", "is_last", "reward")


@dataclass
class Episode:
    """Consecutive steps from one reset to the next, or what is left of them.

    Attributes:
        worker: Worker that collected it.
        stream: Number of the unbroken stream, counted over the folder.
        index: Number of the episode within the stream.
        arrays: Array [steps, ...] per key.
    """

    worker: int
    stream: int
    index: int
    arrays: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    @property
    def complete(self) -> bool:
        """Whether it has its first step and ended by itself or by a time limit."""
        first, last = self.arrays.get("is_first"), self.arrays.get("is_last")
        return first is not None and last is not None and bool(first[0] and last[-1])

    @property
    def score(self) -> float:
        """Sum of rewards, not discounted; NaN if none are stored."""
        rewards = self.arrays.get("reward")
        return float("nan") if rewards is None else float(rewards.sum(dtype=np.float64))


class StoredEpisodes:
    """The episodes in a replay folder. Damaged files are skipped with a warning each.

    Attributes:
        path: The folder that is read.
        chains: Chunks that follow each other without a gap, one list per stream.
    """

    def __init__(self, path: str | Path) -> None:
        """Find the chunks of a replay folder, or of the `replay` folder within a run folder.

        Raises:
            FileNotFoundError: If there is no such folder.
            ValueError: If there are no chunks in it.
        """
        path = Path(path).expanduser()
        if not path.is_dir():
            raise FileNotFoundError(f"Got {path}, expected a folder.")
        if not any(path.glob("*.npz")) and (path / "replay").is_dir():
            path = path / "replay"
        self.path = path
        self.chains = link(ReplayFolder(path).scan())
        if not self.chains:
            raise ValueError(f"Got {path}, expected a folder with replay chunks (*.npz).")

    def read(self, keys: Collection[str] | None = None) -> Iterator[Episode]:
        """Yield all episodes, stream by stream.

        Args:
            keys: What to read besides the keys in `FLAGS`, everything if None.
        """
        for stream, chain in enumerate(self.chains):
            yield from _episodes(stream, chain, keys)


def _episodes(
    stream: int, chain: list[StoredChunk], keys: Collection[str] | None
) -> Iterator[Episode]:
    pieces: list[dict[str, np.ndarray]] = []
    index = 0
    for part in chain:
        wanted = None if keys is None else {*keys, *FLAGS} & {*part.header.schema}
        try:
            arrays = read_chunk(part.path, wanted)[1]
        except ChunkFileError as error:
            LOGGER.warning("Skipping a damaged file: %s", error)
            arrays = {}
        length = len(part.serials) if arrays else 0
        firsts = arrays.get("is_first", np.zeros(length, bool))
        # A damaged chunk is a gap, which ends an episode as well.
        cuts = [*np.flatnonzero(firsts).tolist(), length] if arrays else [0]
        begin = 0
        for cut in cuts:
            if cut > begin:
                pieces.append({key: value[begin:cut] for key, value in arrays.items()})
            if pieces and (cut < length or not arrays):
                yield Episode(part.header.worker, stream, index, _join(pieces))
                pieces, index = [], index + 1
            begin = cut
    if pieces:
        yield Episode(chain[0].header.worker, stream, index, _join(pieces))


def _join(pieces: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {key: np.concatenate([piece[key] for piece in pieces]) for key in pieces[0]}
