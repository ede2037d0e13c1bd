"""What a run says about itself at its start."""

import dataclasses
import shutil
from collections.abc import Mapping
from pathlib import Path

import psutil

from embodied.core.config import ConfigError
from embodied.core.replay.requirements import Requirements
from embodied.core.space import Space
from embodied.run.options import RunOptions

_UNITS = ((1024**4, "TB"), (1024**3, "GB"), (1024**2, "MB"), (1024, "KB"))


def start_banner(options: RunOptions, requirements: Requirements, multiplier: int) -> str:
    """Describe the budget, the schedule of learning, and the memory and disk of the replay.

    Args:
      options: Options of the run.
      requirements: Needs of a full replay.
      multiplier: Environment frames per agent step.

    Raises:
      ConfigError: The replay needs more than the machine has, and `replay_strict` is set.
    """
    replay, problem = replay_needs(requirements, int(options.steps), Path(options.logdir))
    if problem and options.replay_strict:
        raise ConfigError(f"{problem} Or set --replay.strict False to start nevertheless.")
    warning = [f"Warning:  {problem}"] if problem else []
    return "\n".join([budget_and_learning(options, multiplier), replay, *warning])


def budget_and_learning(options: RunOptions, multiplier: int) -> str:
    """Describe the budget and the schedule of learning, in two lines."""
    updates = options.updates_per_step
    budget = int(options.steps)
    return (
        f"Budget:   {budget:,} agent steps = {budget * multiplier:,} frames "
        f"({multiplier} per step), {environments(options.envs)}\n"
        f"Learning: {updates:.4g} updates per agent step, {updates / multiplier:.4g} per frame "
        f"(train ratio {options.train_ratio:g}, {options.batch_size} x {options.batch_length} "
        f"steps per update), from {options.batch_steps:,} items on"
    )


def environments(count: int) -> str:
    """Write a number of environments."""
    return f"{count} environment{'' if count == 1 else 's'}"


def replay_requirements(
    spaces: Mapping[str, Space], length: int, capacity: int | None, workers: int
) -> Requirements:
    """Work out what a full replay needs.

    Args:
      spaces: Spaces of observations, actions and what the agent wants stored.
      length: Steps per sequence.
      capacity: Largest number of sequences, None for any.
      workers: Number of environments.
    """
    # The driver adds resets, sampling adds step numbers, and logs are not stored.
    unstored = {"reset", "consec", "stepid"}
    stored = {k: v for k, v in spaces.items() if k not in unstored and k[:4] != "log/"}
    return Requirements.from_spaces(stored, length, capacity, workers=workers)


def within_budget(requirements: Requirements, budget: int) -> Requirements:
    """What is needed if no more than a budget of steps is collected."""
    items = min(requirements.capacity or budget, budget)
    return dataclasses.replace(requirements, capacity=items)


def format_bytes(size: float) -> str:
    """Write a number of bytes with three significant digits."""
    for factor, unit in _UNITS:
        if size >= 999.5 / 1024 * factor:  # Below, three digits are enough for the smaller unit.
            return f"{size / factor:.3g} {unit}"
    return f"{size:.0f} bytes"


def replay_needs(requirements: Requirements, budget: int, folder: Path) -> tuple[str, str | None]:
    """Say what the replay needs for what the budget can fill, and what of it the machine lacks.

    Args:
      requirements: Needs of a full replay.
      budget: Steps of the run.
      folder: Where the replay is stored.

    Returns:
      A line for the banner, and the problem if there is one.
    """
    needs = within_budget(requirements, budget)
    assert needs.ram_bytes is not None and needs.disk_bytes is not None, "there is a capacity"
    memory, disk = psutil.virtual_memory().available, shutil.disk_usage(folder).free
    line = (
        f"Replay:   {format_bytes(needs.bytes_per_step)} per step, at most {needs.capacity:,} "
        f"items in this run: {format_bytes(needs.ram_bytes)} of memory ({format_bytes(memory)} "
        f"available) and {format_bytes(needs.disk_bytes)} of disk ({format_bytes(disk)} available)"
    )
    return line, needs.problem(memory, disk)
