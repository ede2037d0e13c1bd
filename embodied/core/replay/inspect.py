"""`python -m embodied.replay inspect FOLDER` and `export FOLDER OUTPUT`."""

import argparse
import json
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from embodied.core.program import program_text
from embodied.core.replay.chunk_file import ChunkFileError, part_paths, read_chunk
from embodied.core.replay.folder import LOGGER, ReplayFolder, StoredChunk, link
from embodied.core.replay.schema import Schema, storage_dtype

FLAGS = ("is_first", "is_last", "reward")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: Arguments, those of the process if None.

    Returns:
        Exit code: 0, or 2 if there is no replay at the path.
    """
    parser = argparse.ArgumentParser(
        program_text("replay", "python -m embodied.replay"), description=__doc__
    )
    commands = parser.add_subparsers(dest="command", required=True)
    inspect = commands.add_parser("inspect", help="print steps, episodes, returns, bytes per key")
    inspect.add_argument("folder", help="replay folder, or run folder with one")
    inspect.add_argument("--json", action="store_true", help="print one JSON object instead")
    export = commands.add_parser("export", help="write one .npz file per episode")
    export.add_argument("folder", help="replay folder, or run folder with one")
    export.add_argument("output", help="folder for the episodes, made if missing")
    export.add_argument("--keys", nargs="+", help="keys to write, all by default")
    export.add_argument("--complete", action="store_true", help="leave out partial episodes")
    export.add_argument("--compress", action="store_true", help="write compressed files")
    args = parser.parse_args(argv)
    try:
        stored = StoredEpisodes(args.folder)
    except (FileNotFoundError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    if args.command == "inspect":
        summary = summarize(stored)
        print(json.dumps(summary) if args.json else format_summary(summary))
        return 0
    output = Path(args.output).expanduser()
    output.mkdir(parents=True, exist_ok=True)
    count = 0
    for episode in stored.read(args.keys):
        if episode.complete or not args.complete:
            write_episode(output, episode, args.compress)
            count += 1
    print(f"Wrote {count:,} episodes to {output}.")
    return 0


def summarize(stored: "StoredEpisodes") -> dict[str, Any]:
    """Gather numbers about a folder.

    Returns:
        Counts of files, streams, workers and steps; per key dtype, shape and bytes; episodes,
        complete ones among them, with lengths and returns of the complete ones.
    """
    parts = [part for chain in stored.chains for part in chain]
    schemas: list[Schema] = []
    for schema in (Schema.from_json(part.header.schema) for part in parts):
        if all(schema.difference(other) for other in schemas):
            schemas.append(schema)
    episodes = [(len(x), x.score, x.complete) for x in stored.read(keys=())]
    whole = [(length, score) for length, score, complete in episodes if complete]
    keys: dict[str, dict[str, Any]] = {}
    for part in parts:
        for field in Schema.from_json(part.header.schema).fields:
            entry = keys.setdefault(
                field.key, {"dtype": field.dtype.name, "shape": list(field.shape), "bytes": 0}
            )
            entry["bytes"] += field.nbytes * len(part.serials)
    return {
        "folder": str(stored.path),
        "files": len(parts),
        "file_bytes": sum(
            path.stat().st_size
            for part in parts
            for path in (part.path, *part_paths(part.path, part.header))
        ),
        "streams": len(stored.chains),
        "workers": len({part.header.worker for part in parts}),
        "schemas": len(schemas),
        "steps": sum(len(part.serials) for part in parts),
        "episodes": len(episodes),
        "complete_episodes": len(whole),
        "lengths": _spread([length for length, _ in whole]),
        "returns": _spread([score for _, score in whole]),
        "keys": dict(sorted(keys.items())),
    }


def format_summary(summary: dict[str, Any]) -> str:
    """Lay out what `summarize` returned for reading."""
    steps = max(summary["steps"], 1)
    lines = [
        f"Replay folder {summary['folder']}",
        f"  {summary['steps']:,} steps in {summary['files']:,} files "
        f"({summary['file_bytes'] / 1024**2:,.1f} MiB), {summary['streams']:,} streams of "
        f"{summary['workers']:,} workers",
        f"  {summary['episodes']:,} episodes, {summary['complete_episodes']:,} complete",
    ]
    for name in ("returns", "lengths"):
        if summary[name]:
            numbers = ", ".join(f"{key} {value:,.2f}" for key, value in summary[name].items())
            lines.append(f"  {name} of complete episodes: {numbers}")
    if summary["schemas"] > 1:
        lines.append(f"  {summary['schemas']} different sets of keys: cannot be loaded together")
    width = max(len(key) for key in summary["keys"])
    lines.append("Keys")
    for key, entry in summary["keys"].items():
        kind = f"{entry['dtype']}{tuple(entry['shape'])}"
        per_step = entry["bytes"] / steps
        lines.append(
            f"  {key:<{width}}  {kind:<22} {per_step:>10,.0f} bytes per step "
            f"{entry['bytes'] / 1024**2:>10,.1f} MiB"
        )
    return "\n".join(lines)


def _spread(values: list[float]) -> dict[str, float]:
    if not values:
        return {}
    array = np.asarray(values, np.float64)
    numbers = {"mean": array.mean(), "std": array.std(), "min": array.min(), "max": array.max()}
    return {name: float(number) for name, number in numbers.items()}


def write_episode(folder: Path, episode: "Episode", compress: bool = False) -> Path:
    """Write an episode as an `.npz` file; types that NumPy does not know become float32.

    The name says stream, episode, number of steps, return, and `partial` if a part is missing.
    """
    name = f"{episode.stream:05d}-{episode.index:05d}-{len(episode)}-{episode.score:.2f}"
    path = folder / f"{name}{'' if episode.complete else '-partial'}.npz"
    arrays = {}
    for key, value in episode.arrays.items():
        known = storage_dtype(value.dtype) == value.dtype
        arrays[key] = value if known else value.astype(np.float32)
    save = np.savez_compressed if compress else np.savez
    save(path, allow_pickle=False, **arrays)
    return path


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
        if (path / "replay").is_dir():
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
