"""Pin Pad: step on colored pads in the right order, a test of long horizons and memory.

The rules are those of Hafner et al. (2022), "Deep Hierarchical Planning from Pixels"; the maps are
our own.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs
from embodied.core.space import Space
from embodied.core.suggest import hint
from embodied.envs.errors import UnknownTask

#: Number of pads per task.
TASKS: Mapping[str, int] = MappingProxyType(
    {"three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
)
#: Cells of the room and of the strip below it, which shows the pads visited so far.
ROWS, COLUMNS, STRIP = 14, 16, 2
#: Pixels per cell.
CELL = 4
#: What completing the order pays, and observations with lights that follow.
REWARD, LIGHTS = 10.0, 10
#: Row and column steps of the actions: stay, up, down, left, right.
MOVES = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))
FLOOR, WALL, PLAYER = (40, 40, 40), (110, 110, 110), (255, 255, 255)
COLORS = (
    *((230, 25, 75), (60, 180, 75), (0, 130, 200), (255, 225, 25)),
    *((145, 30, 180), (70, 240, 240), (245, 130, 48), (250, 190, 212)),
)


class PinPad(Env):
    """A room with N pads in a circle. Visiting all of them clockwise, from the first, pays 10.

    Only the last N pads that were stepped on count, and stepping on one twice in a row counts once.
    After a success the pads light up and do not count for 10 steps; then the memory is cleared and
    the player goes on from a random cell. An episode has no terminal step. Observation: `image`
    uint8 [64, 64, 3]; the strip below the room shows the pads visited last.
    """

    def __init__(self, task: str = "three", length: int = 10_000, seed: int = 0) -> None:
        """Lay out the room.

        Args:
          task: Number of pads in words, `three` to `eight`.
          length: Steps until the time limit.
          seed: Seed of the places where the player starts.

        Raises:
          UnknownTask: None of these.
        """
        if task not in TASKS:
            raise UnknownTask(
                f"Unknown pinpad task {task!r}, expected one of {', '.join(TASKS)}."
                f"{hint(task, TASKS)}"
            )
        self._count = TASKS[task]
        self._length = length
        self._rng = np.random.default_rng(seed)
        self._pads = _place_pads(self._count)
        self._background = self._draw_room()
        self._visited: collections.deque[int] = collections.deque(maxlen=self._count)
        self._player = (ROWS // 2, COLUMNS // 2)
        self._elapsed = self._lights = 0
        self._done = True

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of what `step` returns."""
        size = ((ROWS + STRIP) * CELL, COLUMNS * CELL, 3)
        return {
            "image": Space(np.uint8, size),
            "reward": Space(np.float32),
            "is_first": Space(bool),
            "is_last": Space(bool),
            "is_terminal": Space(bool),
        }

    @property
    def act_space(self) -> dict[str, Space]:
        """Spaces of what `step` takes."""
        return {"action": Space(np.int32, (), 0, len(MOVES)), "reset": Space(bool)}

    @property
    def pads(self) -> Mapping[tuple[int, int], int]:
        """Number of the pad per (row, column) that belongs to one."""
        return MappingProxyType(self._pads)

    @property
    def player(self) -> tuple[int, int]:
        """Row and column of the player."""
        return self._player

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Move the player one cell, or put it on a random cell of floor."""
        first = bool(action["reset"]) or self._done
        reward = 0.0
        if first:
            self._elapsed = 0
            self._start()
        else:
            self._elapsed += 1
            self._move(*MOVES[int(action["action"])])
            reward = self._shine() if self._lights else self._visit()
        self._done = self._elapsed >= self._length
        return {
            "image": self._draw(),
            "reward": np.float32(reward),
            "is_first": np.bool_(first),
            "is_last": np.bool_(self._done),
            "is_terminal": np.bool_(False),
        }

    def _start(self) -> None:
        """Forget what was visited and put the player somewhere."""
        self._visited.clear()
        self._lights = 0
        self._player = self._free_cell()

    def _shine(self) -> float:
        """Count the steps with lights, and start anew after the last one; returns no reward."""
        self._lights -= 1
        if not self._lights:
            self._start()
        return 0.0

    def _free_cell(self) -> tuple[int, int]:
        """Draw a cell that is neither wall nor pad."""
        cells = [(row, column) for row in range(1, ROWS - 1) for column in range(1, COLUMNS - 1)]
        free = [cell for cell in cells if cell not in self._pads]
        return free[int(self._rng.integers(len(free)))]

    def _move(self, rows: int, columns: int) -> None:
        """Go to the neighbouring cell unless it is wall."""
        row = min(max(self._player[0] + rows, 1), ROWS - 2)
        column = min(max(self._player[1] + columns, 1), COLUMNS - 2)
        self._player = (row, column)

    def _visit(self) -> float:
        """Remember the pad below the player; returns the reward."""
        pad = self._pads.get(self._player)
        if pad is None or (self._visited and self._visited[-1] == pad):
            return 0.0
        self._visited.append(pad)
        if list(self._visited) != list(range(self._count)):
            return 0.0
        self._lights = LIGHTS
        return REWARD

    def _draw_room(self) -> np.ndarray:
        """Draw everything that never changes, one pixel per cell."""
        room = np.full((ROWS + STRIP, COLUMNS, 3), WALL, np.uint8)
        room[1 : ROWS - 1, 1 : COLUMNS - 1] = FLOOR
        room[ROWS:] = 0
        for cell, pad in self._pads.items():
            room[cell] = COLORS[pad]
        return room

    def _draw(self) -> np.ndarray:
        """Draw the picture, uint8 [64, 64, 3]."""
        picture = self._background.copy()
        if self._lights:
            for cell, pad in self._pads.items():
                picture[cell] = (np.array(COLORS[pad]) + PLAYER) // 2
        picture[self._player] = PLAYER
        for place, pad in enumerate(self._visited):
            picture[ROWS:, 2 * place : 2 * place + 1] = COLORS[pad]
        return picture.repeat(CELL, 0).repeat(CELL, 1)


def _place_pads(count: int) -> dict[tuple[int, int], int]:
    """Put pads of 2 x 2 cells on an ellipse, clockwise from the top."""
    cells = {}
    for pad in range(count):
        angle = 2 * math.pi * pad / count
        row = round(ROWS / 2 - 1 - 4.5 * math.cos(angle))
        column = round(COLUMNS / 2 - 1 + 5.5 * math.sin(angle))
        for cell in ((0, 0), (0, 1), (1, 0), (1, 1)):
            cells[(row + cell[0], column + cell[1])] = pad
    return cells
