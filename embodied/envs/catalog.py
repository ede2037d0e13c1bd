"""Table of the environment suites: where each adapter is, what it needs and which tasks it has.

Cheap to import: nothing here imports a simulator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from embodied.envs import (
    atari_games,
    bsuite,
    crafter,
    dmc_tasks,
    dmlab,
    dummy,
    langroom,
    loconav,
    manipulation,
    memmaze,
    minecraft,
    pinpad,
    procgen,
    toy,
)


@dataclasses.dataclass(frozen=True)
class Suite:
    """One suite.

    Attributes:
      module: Module of the adapter.
      name: Class in that module; its first argument is the task without the suite.
      extra: Optional dependency group that installs what it needs, '' if nothing is needed.
      requires: Top-level modules that have to be importable.
      tasks: Task names without the suite; None if they are open-ended.
      example: A full task name.
      hint: What else the user should know, a sentence.
      options: Arguments of the constructor that the suite decides.
      batched: Module and class that step many instances at once with the option `vector`.
      processes: Whether each instance should have a process of its own, without asking how long a
        step takes: the simulator takes a while to start.
      pure: Whether the class is a `PureEnv`, whose instances compute with JAX, all at once.
    """

    module: str
    name: str
    extra: str = ""
    requires: tuple[str, ...] = ()
    tasks: tuple[str, ...] | None = None
    example: str = ""
    hint: str = ""
    options: tuple[tuple[str, Any], ...] = ()
    batched: tuple[str, str] | None = None
    processes: bool = False
    pure: bool = False


SUITES: Mapping[str, Suite] = MappingProxyType(
    {
        "dummy": Suite(
            module="embodied.envs.dummy",
            name="Dummy",
            tasks=dummy.TASKS,
            example="dummy_disc",
            hint="Every kind of observation and action, for tests.",
        ),
        "toy": Suite(
            module="embodied.envs.toy",
            name="Toy",
            tasks=toy.TASKS,
            example="toy_cue",
            hint="Known best and random returns, for tests of learning.",
        ),
        "jaxtoy": Suite(
            module="embodied.envs.pure.toy",
            name="make",
            tasks=toy.JAX_TASKS,
            example="jaxtoy_grid",
            hint="The same in JAX, and a grid world, also for the script ondevice.",
            pure=True,
        ),
        "dmc": Suite(
            module="embodied.envs.dmc",
            name="DMC",
            extra="dmc",
            requires=("dm_control",),
            tasks=dmc_tasks.names(),
            example="dmc_walker_walk",
            hint="Pictures need OpenGL: libegl1 libgl1-mesa-dri or libosmesa6.",
        ),
        "atari": Suite(
            module="embodied.envs.atari",
            name="Atari",
            extra="atari",
            requires=("ale_py", "PIL"),
            tasks=atari_games.names(),
            example="atari_pong",
            hint="ROMs are part of ale-py.",
        ),
        "atari100k": Suite(
            module="embodied.envs.atari",
            name="Atari",
            extra="atari",
            requires=("ale_py", "PIL"),
            tasks=atari_games.names(),
            example="atari100k_pong",
            hint="The same games with the options of the block env.atari100k.",
        ),
        "crafter": Suite(
            module="embodied.envs.crafter",
            name="Crafter",
            extra="crafter",
            requires=("crafter",),
            tasks=crafter.TASKS,
            example="crafter_reward",
            hint="Survival with 22 achievements.",
        ),
        "bsuite": Suite(
            module="embodied.envs.bsuite",
            name="BSuite",
            extra="bsuite",
            requires=("bsuite", "dm_env"),
            tasks=bsuite.names(),
            example="bsuite_catch/0",
            hint="Experiments with 17 to 23 settings each; mnist downloads its data.",
        ),
        "loconav": Suite(
            module="embodied.envs.loconav",
            name="LocoNav",
            extra="dmc",
            requires=("dm_control",),
            tasks=loconav.names(),
            example="loconav_ant_maze_m",
            hint="Needs OpenGL: libegl1 libgl1-mesa-dri or libosmesa6.",
        ),
        "pinpad": Suite(
            module="embodied.envs.pinpad",
            name="PinPad",
            tasks=tuple(pinpad.TASKS),
            example="pinpad_three",
            hint="Step on pads in the right order.",
        ),
        "manipulation": Suite(
            module="embodied.envs.manipulation",
            name="Manipulation",
            extra="dmc",
            requires=("dm_control",),
            tasks=manipulation.TASKS,
            example="manipulation_reach_site_features",
            hint="A robot arm and blocks; vision tasks need OpenGL.",
        ),
        "memmaze": Suite(
            module="embodied.envs.memmaze",
            name="MemoryMaze",
            extra="memmaze",
            requires=("memory_maze", "dm_control", "gym"),
            tasks=memmaze.TASKS,
            example="memmaze_9x9",
            hint="Needs OpenGL: libegl1 libgl1-mesa-dri or libosmesa6.",
        ),
        "langroom": Suite(
            module="embodied.envs.langroom",
            name="LangRoom",
            extra="langroom",
            requires=("langroom",),
            tasks=langroom.TASKS,
            example="langroom_answer-only",
            hint="A room with objects and questions about their colors.",
        ),
        "procgen": Suite(
            module="embodied.envs.procgen",
            name="ProcGen",
            extra="procgen",
            requires=("procgen", "PIL"),
            tasks=procgen.TASKS,
            example="procgen_coinrun",
            hint="Python 3.7 to 3.10 only; docs/environments.md says how to install it.",
        ),
        "dmlab": Suite(
            module="embodied.envs.dmlab",
            name="DMLab",
            requires=("deepmind_lab",),
            tasks=dmlab.TASKS,
            example="dmlab_explore_goal_locations_small",
            hint="Has to be built from source; docs/environments.md says how to install it.",
            processes=True,
        ),
        "minecraft": Suite(
            module="embodied.envs.minecraft",
            name="Minecraft",
            requires=("minerl", "gym"),
            tasks=tuple(minecraft.TASKS),
            example="minecraft_diamond",
            hint="MineRL 0.4 and Java 8; docs/environments.md says how to install them.",
            processes=True,
        ),
        "navix": Suite(
            module="embodied.envs.pure.navix",
            name="Navix",
            extra="jaxenvs",
            requires=("navix",),
            example="navix_Empty-5x5",
            hint="Grid worlds; any id of the package, with or without Navix- and the version.",
            pure=True,
        ),
        "gymnax": Suite(
            module="embodied.envs.pure.gymnax",
            name="Gymnax",
            extra="jaxenvs",
            requires=("gymnax",),
            example="gymnax_CartPole-v1",
            hint="Classic control, bsuite and MinAtar; any id of the package.",
            pure=True,
        ),
        "xminigrid": Suite(
            module="embodied.envs.pure.xminigrid",
            name="XMiniGrid",
            extra="jaxenvs",
            requires=("xminigrid",),
            example="xminigrid_MiniGrid-Empty-5x5",
            hint="Grid worlds with rules; any id of the package.",
            pure=True,
        ),
        "craftax": Suite(
            module="embodied.envs.pure.craftax",
            name="Craftax",
            extra="jaxenvs",
            requires=("craftax",),
            tasks=tuple(
                f"Craftax-{kind}-v1"
                for kind in ("Symbolic", "Pixels", "Classic-Symbolic", "Classic-Pixels")
            ),
            example="craftax_Craftax-Symbolic-v1",
            hint="Survival with achievements; the classic one is Crafter.",
            pure=True,
        ),
        "gym": Suite(
            module="embodied.envs.from_gymnasium",
            name="FromGymnasium",
            extra="gym",
            requires=("gym",),
            example="gym_CartPole-v1",
            hint="Any id that gym.make of the old package knows.",
            options=(("package", "gym"),),
        ),
        "gymnasium": Suite(
            module="embodied.envs.from_gymnasium",
            name="FromGymnasium",
            extra="gymnasium",
            requires=("gymnasium",),
            example="gymnasium_CartPole-v1",
            hint="Any id that gymnasium.make knows.",
            batched=("embodied.envs.from_gymnasium_vector", "FromGymnasiumVector"),
        ),
    }
)
