"""Names of the DeepMind Control Suite, as data, so that a task is checked without dm_control.

A test compares the table with `dm_control.suite.ALL_TASKS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from embodied.core.suggest import hint
from embodied.envs.errors import UnknownTask
from embodied.envs.manipulation import BOTH

#: Tasks per domain.
TASKS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "acrobot": ("swingup", "swingup_sparse"),
        "ball_in_cup": ("catch",),
        "cartpole": (
            "balance",
            "balance_sparse",
            "swingup",
            "swingup_sparse",
            "two_poles",
            "three_poles",
        ),
        "cheetah": ("run",),
        "dog": ("stand", "walk", "trot", "run", "fetch"),
        "finger": ("spin", "turn_easy", "turn_hard"),
        "fish": ("upright", "swim"),
        "hopper": ("stand", "hop"),
        "humanoid": ("stand", "walk", "run", "run_pure_state"),
        "humanoid_CMU": ("stand", "walk", "run"),
        "lqr": ("lqr_2_1", "lqr_6_2"),
        "manipulator": ("bring_ball", "bring_peg", "insert_ball", "insert_peg"),
        "pendulum": ("swingup",),
        "point_mass": ("easy", "hard"),
        "quadruped": ("walk", "run", "escape", "fetch"),
        "reacher": ("easy", "hard"),
        "stacker": ("stack_2", "stack_4"),
        "swimmer": ("swimmer6", "swimmer15"),
        "walker": ("stand", "walk", "run"),
    }
)

#: Tasks of other parts of dm_control that are named like domains: those of `manipulation`, and the
#: rodent of `locomotion`.
OTHERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"manip": BOTH, "rodent": ("escape_bowl", "run_gaps", "maze_forage", "two_touch")}
)

#: Short domain names in use in the field.
SHORT: Mapping[str, str] = MappingProxyType({"cup": "ball_in_cup"})


def names() -> tuple[str, ...]:
    """All task names as `<domain>_<task>`, the short forms last."""
    domains = {**TASKS, **OTHERS}
    full = [f"{domain}_{task}" for domain, tasks in domains.items() for task in tasks]
    short = [f"{short}_{task}" for short, domain in SHORT.items() for task in TASKS[domain]]
    return (*full, *short)


def parse(name: str) -> tuple[str, str]:
    """Split `<domain>_<task>`; either part may contain underscores.

    Args:
      name: For example `walker_walk`, `ball_in_cup_catch`, `cup_catch`, `humanoid_CMU_run`.

    Returns:
      Domain and task as the suite names them.

    Raises:
      UnknownTask: There is no such task.
    """
    for domain, tasks in {**TASKS, **OTHERS}.items():
        for prefix in (domain, *(short for short, long in SHORT.items() if long == domain)):
            task = name.removeprefix(prefix + "_")
            if task != name and task in tasks:
                return domain, task
    raise UnknownTask(
        f"Unknown control-suite task {name!r}, expected <domain>_<task>.{hint(name, names())}"
    )
