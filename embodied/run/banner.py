"""What a run says about itself at its start."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import psutil

from embodied.core.replay.requirements import Requirements

_UNITS = ((1024**4, "TB"), (1024**3, "GB"), (1024**2, "MB"), (1024, "KB"))


def start_banner(args: Any, requirements: Requirements, multiplier: int, needed: int) -> str:
    """Describe the budget, the schedule of learning, and the memory and disk of the replay.

    Args:
      args: Options of the run.
      requirements: Needs of a full replay.
      multiplier: Environment frames per agent step.
      needed: Items at which learning starts.
    """
    updates = args.train_ratio / needed
    budget = int(args.steps)
    return "\n".join(
        [
            f"Budget:   {budget:,} agent steps = {budget * multiplier:,} frames "
            f"({multiplier} per step), {args.envs} environments",
            f"Learning: {updates:.4g} updates per agent step, {updates / multiplier:.4g} per frame "
            f"(train ratio {args.train_ratio:g}, {args.batch_size} x {args.batch_length} steps per "
            f"update), from {needed:,} items on",
            _replay_lines(requirements, budget, Path(args.logdir)),
        ]
    )


def format_bytes(size: float) -> str:
    """Write a number of bytes with three significant digits."""
    for factor, unit in _UNITS:
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size:.0f} bytes"


def _replay_lines(requirements: Requirements, budget: int, folder: Path) -> str:
    """The needs of what the budget can fill, and a warning where the machine has less."""
    items = min(requirements.capacity or budget, budget)
    needs = dataclasses.replace(requirements, capacity=items)
    assert needs.ram_bytes is not None and needs.disk_bytes is not None, "there is a capacity"
    memory, disk = psutil.virtual_memory().available, shutil.disk_usage(folder).free
    line = (
        f"Replay:   {format_bytes(needs.bytes_per_step)} per step, at most {items:,} items in this "
        f"run: {format_bytes(needs.ram_bytes)} of memory ({format_bytes(memory)} available) and "
        f"{format_bytes(needs.disk_bytes)} of disk ({format_bytes(disk)} available)"
    )
    problem = needs.problem(memory, disk)
    return f"{line}\nWarning:  {problem}" if problem else line
