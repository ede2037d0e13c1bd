"""`python -m embodied.replay inspect FOLDER` and `export FOLDER OUTPUT`."""

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from embodied.core.replay.schema import storage_dtype
from embodied.replay.episodes import Episode, StoredEpisodes
from embodied.replay.report import format_summary, summarize


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: Arguments, those of the process if None.

    Returns:
        Exit code: 0, or 2 if there is no replay at the path.
    """
    parser = argparse.ArgumentParser("python -m embodied.replay", description=__doc__)
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


def write_episode(folder: Path, episode: Episode, compress: bool = False) -> Path:
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


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        # So that `... | head` ends quietly.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
