"""What a run says about itself at its start and at its end."""

import math
from collections.abc import Mapping
from typing import Any

import psutil

from embodied.core.space import Space

_UNITS = ((1024**4, "TB"), (1024**3, "GB"), (1024**2, "MB"), (1024, "KB"))


def start_banner(
    args: Any,
    spaces: Mapping[str, Space],
    capacity: int | None,
    multiplier: int,
    learner_needs: int,
) -> str:
    """Describe the budget, the schedule of learning and the memory that the replay will take.

    Args:
      args: Options of the run.
      spaces: Space of everything that is stored per step.
      capacity: Items that the replay holds, None for any number.
      multiplier: Environment frames per agent step.
      learner_needs: Items at which learning starts.
    """
    updates = args.train_ratio / learner_needs
    budget = int(args.steps)
    lines = [
        f"Budget:   {budget:,} agent steps = {budget * multiplier:,} frames "
        f"({multiplier} per step), {args.envs} environments",
        f"Learning: {updates:.4g} updates per agent step, "
        f"{updates / multiplier:.4g} per frame (train ratio {args.train_ratio:g}, "
        f"{args.batch_size} x {args.batch_length} steps per update), "
        f"from {learner_needs:,} items on",
        _memory_line(spaces, min(capacity or budget, budget)),
    ]
    return "\n".join(lines)


def step_bytes(spaces: Mapping[str, Space]) -> int:
    """Bytes that one step takes in the replay."""
    return sum(math.prod(space.shape) * space.dtype.itemsize for space in spaces.values())


def format_bytes(size: float) -> str:
    """Write a number of bytes with three significant digits."""
    for factor, unit in _UNITS:
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size:.0f} bytes"


def _memory_line(spaces: Mapping[str, Space], items: int) -> str:
    each = step_bytes(spaces)
    total = each * items
    available = psutil.virtual_memory().available
    line = (
        f"Replay:   {format_bytes(each)} per step, up to {items:,} steps = {format_bytes(total)} "
        f"of memory ({format_bytes(available)} available), as much on disk when saved"
    )
    if total > available:
        line += "\nWarning:  the replay will not fit into memory; reduce replay.size."
    return line
