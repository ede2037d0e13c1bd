"""Summary of a replay folder."""

from typing import Any

import numpy as np

from embodied.core.replay.schema import Schema
from embodied.replay.episodes import StoredEpisodes


def summarize(stored: StoredEpisodes) -> dict[str, Any]:
    """Gather numbers about a folder.

    Returns:
        Counts of files, streams, workers and steps; per key dtype, shape and bytes; episodes,
        complete ones among them, with lengths and returns of the complete ones.
    """
    parts = [part for chain in stored.chains for part in chain]
    schemas = {str(sorted(part.header.schema.items())): part.header.schema for part in parts}
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
        "file_bytes": sum(part.path.stat().st_size for part in parts),
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
