"""Procgen, 16 games with generated levels (Cobbe et al., 2019)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs
from embodied.core.space import Space
from embodied.core.suggest import hint
from embodied.envs.errors import UnknownTask
from embodied.envs.pictures import make_resize

TASKS = (
    "bigfish", "bossfight", "caveflyer", "chaser", "climber", "coinrun", "dodgeball", "fruitbot",
    "heist", "jumper", "leaper", "maze", "miner", "ninja", "plunder", "starpilot",
)  # fmt: skip
#: Height and width of the game's own picture.
NATIVE = (64, 64)


class ProcGen(Env):
    """One game, through the package's `ProcgenGym3Env`. Every end of an episode is terminal.

    The game starts the next level by itself and shows nothing of the end of the last one, so the
    last observation of an episode repeats the picture before it.
    """

    def __init__(
        self,
        task: str,
        size: tuple[int, int] = (64, 64),
        resize: str = "pillow",
        levels: int = 0,
        start: int = 0,
        mode: str = "hard",
        seed: int = 0,
    ) -> None:
        """Start the game.

        Args:
          task: Name of the game.
          size: Height and width of pictures in pixels. Other sizes than 64x64 are scaled down from
            the game's rendering in 512x512, which takes more time.
          resize: Library that scales pictures, `pillow` or `opencv`.
          levels: Number of levels, 0 for no limit.
          start: Seed of the first level.
          mode: Difficulty, such as `easy` or `hard`.
          seed: Seed of the order of levels.

        Raises:
          UnknownTask: There is no such game.
        """
        if task not in TASKS:
            raise UnknownTask(f"Unknown procgen game {task!r}.{hint(task, TASKS)}")
        self._size = (int(size[0]), int(size[1]))
        self._resize = make_resize(resize) if self._size != NATIVE else None
        self._rng = np.random.default_rng(seed)
        self._options: dict[str, Any] = {
            "env_name": task,
            "num_levels": levels,
            "start_level": start,
            "distribution_mode": mode,
            "render_mode": "rgb_array" if self._resize else None,
        }
        self._package = importlib.import_module("procgen")
        self._game = self._make()
        self._running = False
        self._picture = np.zeros((*self._size, 3), np.uint8)

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of what `step` returns."""
        flags = {key: Space(bool) for key in ("is_first", "is_last", "is_terminal")}
        picture = Space(np.uint8, (*self._size, 3))
        return {"image": picture, "reward": Space(np.float32), **flags}

    @property
    def act_space(self) -> dict[str, Space]:
        """Spaces of what `step` takes."""
        return {"action": Space(np.int32, (), 0, 15), "reset": Space(bool)}

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Act in the game, or go on to the level that it has started."""
        if action["reset"] or not self._running:
            if self._running:
                # There is no way to leave a level.
                self._game.close()
                self._game = self._make()
            _, frame, _ = self._game.observe()
            return self._observe(frame, 0.0, first=True)
        self._game.act(np.array([action["action"]], np.int32))
        reward, frame, first = self._game.observe()
        return self._observe(frame, float(reward[0]), last=bool(first[0]))

    def close(self) -> None:
        """Close the game."""
        self._game.close()

    def _make(self) -> Any:
        """Start one game of the package, which would play many at once."""
        seed = int(self._rng.integers(2**31 - 1))
        return self._package.ProcgenGym3Env(num=1, rand_seed=seed, **self._options)

    def _observe(self, frame: Any, reward: float, first: bool = False, last: bool = False) -> Obs:
        self._running = not last
        if not last and self._resize is not None:
            self._picture = self._resize(self._game.get_info()[0]["rgb"], self._size)
        elif not last:
            self._picture = np.array(frame["rgb"][0], np.uint8)
        return {
            "image": self._picture.copy(),
            "reward": np.float32(reward),
            "is_first": np.bool_(first),
            "is_last": np.bool_(last),
            "is_terminal": np.bool_(last),
        }
