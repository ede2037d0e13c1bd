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

#: What each task pays 1 for: the first of each item in an episode, or in `wood` every log.
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
#: Number of these that a task has; those for `wood` are moving, attacking and placing dirt.
CHOICES: Mapping[str, int] = MappingProxyType({"diamond": len(ACTIONS), "wood": 12})
#: Steps for which an attack at the usual break speed and a jump go on.
ATTACK_STEPS, JUMP_STEPS = 30, 10
#: Most of health, hunger and breath, which are observed as shares of it.
MOST_LIFE, MOST_FOOD, MOST_AIR = 20, 20, 300
#: Reward for all of the health that is gained, negative where it is lost.
HEALTH = 0.01
#: Items that count as another one.
SAME: Mapping[str, str] = MappingProxyType({"log2": "log"})


class Minecraft(Env):
    """A world with 25 actions, or 12. Death is terminal, the time limit is not.

    Observations: `image`, `inventory` and `inventory_max` (counts of all items now and at most in
    the episode), `equipped` (number of the item in hand from 1, 0 for none), `health`, `hunger` and
    `breath` (shares of the most there is). An error of the world begins a new episode.
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
          break_speed: Factor on the speed at which blocks break. An attack goes on for 30 steps
            if it is 1, else it is a single step.
          logs: Log the most that was held of each item that pays, as `log/<item>`.
          length: Steps until the time limit.

        Raises:
          UnknownTask: There is no such task.
        """
        if task not in TASKS:
            raise UnknownTask(f"Unknown minecraft task {task!r}.{hint(task, TASKS)}")
        self._size = (int(size[0]), int(size[1]))
        self._goals, self._length, self._logs = TASKS[task], length, logs
        self._actions, self._every = ACTIONS[: CHOICES[task]], task == "wood"
        self._attack_steps = ATTACK_STEPS if break_speed == 1 else 1
        self._items = [name for name in minecraft_spec.items() if name not in SAME]
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
        return {"action": Space(np.int32, (), 0, len(self._actions)), "reset": Space(bool)}

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Act in the world, or make a new one."""
        if action["reset"] or self._done:
            return self._begin()
        found, _, dead, info = self._world.step(self._translate(int(action["action"])))
        if "error" in info:
            return self._begin()
        self._count += 1
        return self._observe(found, dead=bool(dead))

    def close(self) -> None:
        """End the world."""
        self._world.close()

    def _begin(self) -> Obs:
        """Make a new world."""
        self._count = self._attack = self._jump = 0
        self._pitch = 0.0
        self._most[:] = 0
        self._held = np.zeros(len(self._goals), np.float32)
        self._health = math.nan
        return self._observe(self._world.reset(), first=True)

    def _translate(self, number: int) -> dict[str, Any]:
        """Turn the number of an action into one of MineRL, attacks and jumps going on."""
        keys = ("attack", "forward", "back", "left", "right", "jump", "sneak", "sprint")
        choices = ("place", "craft", "nearbyCraft", "nearbySmelt", "equip")
        action: dict[str, Any] = {**dict.fromkeys(keys, 0), **dict.fromkeys(choices, "none")}
        action |= {"camera": (0.0, 0.0), **self._actions[number]}
        self._attack = self._attack_steps if action["attack"] else max(0, self._attack - 1)
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
            if (item := SAME.get(name, name)) in self._index:
                counts[self._index[item]] += float(np.asarray(count))
        self._most = np.maximum(self._most, counts)
        life = {key: float(np.asarray(value)) for key, value in found["life_stats"].items()}
        reward = self._reward(counts, life["life"] / MOST_LIFE, first)
        equipped = str(np.asarray(found["equipped_items"]["mainhand"]["type"]))
        equipped = SAME.get(equipped, equipped)
        self._done = dead or self._count >= self._length
        obs: Obs = {
            "image": np.array(found["pov"], np.uint8),
            "inventory": counts,
            "inventory_max": self._most.copy(),
            "equipped": np.int32(self._index.get(equipped, -1) + 1),
            "health": np.float32(life["life"] / MOST_LIFE),
            "hunger": np.float32(life["food"] / MOST_FOOD),
            "breath": np.float32(life["air"] / MOST_AIR),
            "reward": np.float32(reward),
            "is_first": np.bool_(first),
            "is_last": np.bool_(self._done),
            "is_terminal": np.bool_(dead),
        }
        if self._logs:
            most = {name: self._most[self._index[name]] for name in self._goals}
            obs |= {f"log/{name}": np.float32(count) for name, count in most.items()}
        return obs

    def _reward(self, counts: np.ndarray, health: float, first: bool) -> float:
        """Pay for items, and for changes of health.

        For every further one, or once in an episode, when the most that was held is no longer 0.
        """
        source = counts if self._every else np.minimum(self._most, 1)
        held = np.array([source[self._index[name]] for name in self._goals])
        gained = float(np.maximum(held - self._held, 0).sum())
        reward = 0.0 if first else gained + HEALTH * (health - self._health)
        self._held, self._health = held, health
        return reward
