"""The world behind the Minecraft tasks, described for MineRL 0.4."""

from __future__ import annotations

import importlib
from typing import Any

PLACE = ("none", "dirt", "crafting_table", "furnace")
CRAFT = ("none", "planks", "stick", "crafting_table")
CRAFT_NEARBY = ("none", "wooden_pickaxe", "stone_pickaxe", "iron_pickaxe", "furnace")
SMELT = ("none", "iron_ingot")
EQUIP = ("none", "air", "wooden_pickaxe", "stone_pickaxe", "iron_pickaxe")


def items() -> list[str]:
    """Name all items that an inventory can hold."""
    constants = importlib.import_module("minerl.herobraine.hero.mc")
    return sorted({name.removeprefix("minecraft:") for name in constants.ALL_ITEMS} - {"air"})


def make(size: tuple[int, int], break_speed: float) -> Any:
    """Start a world of random seed in which the player starts with nothing.

    Args:
      size: Height and width of the picture.
      break_speed: Factor on the speed at which blocks break.

    Returns:
      A `gym` environment with the observations `pov`, `inventory`, `equipped_items` and
      `life_stats`, and dicts as actions.
    """
    base: Any = importlib.import_module("minerl.herobraine.env_specs.simple_embodiment")
    handler: Any = importlib.import_module("minerl.herobraine.hero.handler")
    handlers = importlib.import_module("minerl.herobraine.hero.handlers")
    names = items()

    class BreakSpeed(handler.Handler):  # type: ignore[misc]
        """Makes the world send the factor to the player's client."""

        def to_string(self) -> str:
            return f"break_speed({break_speed})"

        def xml_template(self) -> str:
            return f"<BreakSpeedMultiplier>{break_speed}</BreakSpeedMultiplier>"

    class World(base.SimpleEmbodimentEnvSpec):  # type: ignore[misc]
        """A world without a goal of its own; the adapter pays the rewards."""

        def __init__(self) -> None:
            super().__init__(name="EmbodiedMinecraft-v1", resolution=size[::-1])

        def create_observables(self) -> list[Any]:
            return [
                *super().create_observables(),
                handlers.FlatInventoryObservation(names),
                handlers.EquippedItemObservation(["air", *names], _default="air", _other="air"),
                handlers.ObservationFromLifeStats(),
            ]

        def create_actionables(self) -> list[Any]:
            none = {"_other": "none", "_default": "none"}
            return [
                *super().create_actionables(),
                handlers.PlaceBlock(list(PLACE), **none),
                handlers.EquipAction(list(EQUIP), **none),
                handlers.CraftAction(list(CRAFT), **none),
                handlers.CraftNearbyAction(list(CRAFT_NEARBY), **none),
                handlers.SmeltItemNearby(list(SMELT), **none),
            ]

        def create_agent_start(self) -> list[Any]:
            return [BreakSpeed()]

        def create_rewardables(self) -> list[Any]:
            return []

        def create_agent_handlers(self) -> list[Any]:
            return []

        def create_server_world_generators(self) -> list[Any]:
            return [handlers.DefaultWorldGenerator(force_reset=True)]

        def create_server_quit_producers(self) -> list[Any]:
            return [handlers.ServerQuitWhenAnyAgentFinishes()]

        def create_server_decorators(self) -> list[Any]:
            return []

        def create_server_initial_conditions(self) -> list[Any]:
            return [
                handlers.TimeInitialCondition(allow_passage_of_time=True, start_time=0),
                handlers.SpawningInitialCondition(allow_spawning=True),
            ]

        def determine_success_from_rewards(self, rewards: list[float]) -> bool:
            return True

        def is_from_folder(self, folder: str) -> bool:
            return False

        def get_docstring(self) -> str:
            return "A world without a goal."

    return World().make()
