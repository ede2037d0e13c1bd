"""Minecraft through MineRL 0.4: collecting a diamond, and steps on the way to it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs
from embodied.core.space import Space
from embodied.core.suggest import hint
from embodied.envs import minecraft_spec
from embodied.envs.errors import UnknownTask

#: What each task pays 1 for, once per episode and item.
TASKS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "diamond": (
            "log", "planks", "stick", "crafting_table", "wooden_pickaxe", "cobblestone",
            "stone_pickaxe", "iron_ore", "furnace", "iron_ingot", "iron_pickaxe", "diamond",
        ),
        "wood": ("log",),
    }
)  # fmt: skip
#: Degrees of a turn, and how far up and down one can look.
TURN, LARGEST_PITCH = 15.0, 60.0
#: What each action changes of doing nothing.
ACTIONS: tuple[Mapping[str, Any], ...] = (
    {},
    {"attack": 1},
    {"camera": (-TURN, 0.0)},
    {"camera": (TURN, 0.0)},
    {"camera": (0.0, -TURN)},
    {"camera": (0.0, TURN)},
    {"forward": 1},
    {"back": 1},
    {"left": 1},
    {"right": 1},
    {"jump": 1, "forward": 1},
    {"place": "dirt"},
    {"craft": "planks"},
    {"craft": "stick"},
    {"craft": "crafting_table"},
    {"place": "crafting_table"},
    {"nearbyCraft": "wooden_pickaxe"},
    {"nearbyCraft": "stone_pickaxe"},
    {"nearbyCraft": "iron_pickaxe"},
    {"equip": "wooden_pickaxe"},
    {"equip": "stone_pickaxe"},
    {"equip": "iron_pickaxe"},
    {"nearbyCraft": "furnace"},
    {"place": "furnace"},
    {"nearbySmelt": "iron_ingot"},
)
#: Steps for which an attack and a jump go on.
ATTACK_STEPS, JUMP_STEPS = 30, 10
#: Reward per point of health (of 20) that is gained, negative where it is lost.
HEALTH = 0.01


class Minecraft(Env):
    """A world with 25 actions. Death is terminal, the time limit is not.

    Observations: `image`, `inventory` and `inventory_max` (counts of all items now and at most in
    the episode), `equipped` (number of the item in hand from 1, 0 for none), `health`, `hunger` and
    `breath`.
    """

    def __init__(
        self,
        task: str,
        size: tuple[int, int] = (64, 64),
        break_speed: float = 100.0,
        logs: bool = False,
        length: int = 36000,
    ) -> None:
        """Start the world, whose seed is random.

        Args:
          task: A name of `TASKS`.
          size: Height and width of the picture in pixels.
          break_speed: Factor on the speed at which blocks break.
          logs: Log the most that was held of each item that pays, as `log/<item>`.
          length: Steps until the time limit.

        Raises:
          UnknownTask: There is no such task.
        """
        if task not in TASKS:
            raise UnknownTask(f"Unknown minecraft task {task!r}.{hint(task, TASKS)}")
        self._size = (int(size[0]), int(size[1]))
        self._goals, self._length, self._logs = TASKS[task], length, logs
        self._items = minecraft_spec.items()
        self._index = {name: index for index, name in enumerate(self._items)}
        self._world = minecraft_spec.make(self._size, break_speed)
        self._most = np.zeros(len(self._items), np.float32)
        self._done = True

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of what `step` returns."""
        flags = {key: Space(bool) for key in ("is_first", "is_last", "is_terminal")}
        counts = Space(np.float32, (len(self._items),), 0)
        log = {f"log/{name}": Space(np.float32) for name in self._goals if self._logs}
        return {
            "image": Space(np.uint8, (*self._size, 3)),
            "inventory": counts,
            "inventory_max": counts,
            "equipped": Space(np.int32, (), 0, len(self._items) + 1),
            **{key: Space(np.float32) for key in ("health", "hunger", "breath", "reward")},
            **flags,
            **log,
        }

    @property
    def act_space(self) -> dict[str, Space]:
        """Spaces of what `step` takes."""
        return {"action": Space(np.int32, (), 0, len(ACTIONS)), "reset": Space(bool)}

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Act in the world, or make a new one."""
        if action["reset"] or self._done:
            self._count = self._attack = self._jump = 0
            self._pitch = 0.0
            self._paid: set[str] = set()
            self._most[:] = 0
            self._health = math.nan
            return self._observe(self._world.reset(), first=True)
        found, _, dead, _ = self._world.step(self._translate(int(action["action"])))
        self._count += 1
        return self._observe(found, dead=bool(dead))

    def close(self) -> None:
        """End the world."""
        self._world.close()

    def _translate(self, number: int) -> dict[str, Any]:
        """Turn the number of an action into one of MineRL, attacks and jumps going on."""
        keys = ("attack", "forward", "back", "left", "right", "jump", "sneak", "sprint")
        choices = ("place", "craft", "nearbyCraft", "nearbySmelt", "equip")
        action: dict[str, Any] = {**dict.fromkeys(keys, 0), **dict.fromkeys(choices, "none")}
        action |= {"camera": (0.0, 0.0), **ACTIONS[number]}
        self._attack = ATTACK_STEPS if action["attack"] else max(0, self._attack - 1)
        self._jump = JUMP_STEPS if action["jump"] else max(0, self._jump - 1)
        if self._attack:
            action |= {"attack": 1, "jump": 0}
        if self._jump:
            action |= {"jump": 1, "forward": 1}
        pitch, yaw = action["camera"]
        if not -LARGEST_PITCH <= self._pitch + pitch <= LARGEST_PITCH:
            pitch = 0.0
        self._pitch += pitch
        return action | {"camera": np.array([pitch, yaw], np.float32)}

    def _observe(self, found: Mapping[str, Any], first: bool = False, dead: bool = False) -> Obs:
        """Build the observation and compute the reward."""
        counts = np.zeros(len(self._items), np.float32)
        for name, count in found["inventory"].items():
            if name in self._index:
                counts[self._index[name]] += float(np.asarray(count))
        self._most = np.maximum(self._most, counts)
        reward = self._reward(float(np.asarray(found["life_stats"]["life"])), first)
        equipped = str(np.asarray(found["equipped_items"]["mainhand"]["type"]))
        self._done = dead or self._count >= self._length
        life = found["life_stats"]
        obs: Obs = {
            "image": np.array(found["pov"], np.uint8),
            "inventory": counts,
            "inventory_max": self._most.copy(),
            "equipped": np.int32(self._index.get(equipped, -1) + 1),
            "health": np.float32(life["life"]),
            "hunger": np.float32(life["food"]),
            "breath": np.float32(life["air"]),
            "reward": np.float32(reward),
            "is_first": np.bool_(first),
            "is_last": np.bool_(self._done),
            "is_terminal": np.bool_(dead),
        }
        if self._logs:
            most = {name: self._most[self._index[name]] for name in self._goals}
            obs |= {f"log/{name}": np.float32(count) for name, count in most.items()}
        return obs

    def _reward(self, health: float, first: bool) -> float:
        """Pay for items that are held for the first time, and for changes of health."""
        held = {name for name in self._goals if self._most[self._index[name]] > 0}
        reward = 0.0 if first else len(held - self._paid) + HEALTH * (health - self._health)
        self._paid |= held
        self._health = health
        return reward
