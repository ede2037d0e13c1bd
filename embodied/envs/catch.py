"""A game in tiny pictures that an agent learns within minutes without a GPU, for the demo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs, State
from embodied.core.space import Space

#: Cells per side, each of which is a pixel.
CELLS = 6
SKY, FRUIT, BASKET = (20, 24, 60), (240, 90, 60), (230, 210, 120)
LEFT, STAY, RIGHT = range(3)


class Catch(Env):
    """Fruits fall one after the other; every step at which the basket is under the fruit pays 1.

    A fruit begins in a random cell of the top row and falls by one cell per step; when it is on the
    ground, the next one follows. The basket is in the bottom row and moves by one cell at most. An
    episode is over with the last fruit, in a terminal step.

    Observation `image`: uint8 [6, 6, 3]. Action: `LEFT`, `STAY` or `RIGHT`.

    Attributes:
      fruits: Fruits per episode.
      random_return: Expected return of uniformly random actions.
      good_return: Expected return of following each fruit, that of the best policy or close to it.
    """

    def __init__(self, fruits: int = 10, seed: int = 0) -> None:
        """Create the game.

        Args:
          fruits: Fruits per episode.
          seed: Seed of where fruits and basket begin.
        """
        self.fruits = fruits
        self.random_return = float(fruits)  # Under the fruit in one of six steps.
        # What is missing is the way to the next fruit, beyond its first step.
        distances = np.abs(np.subtract.outer(range(CELLS), range(CELLS)))
        self.good_return = float(fruits * (CELLS - np.maximum(distances - 1, 0).mean()))
        self._rng = np.random.default_rng(seed)
        self._left = 0
        self._basket = self._column = self._row = 0

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of what `step` returns."""
        return {
            "image": Space(np.uint8, (CELLS, CELLS, 3)),
            "reward": Space(np.float32),
            "is_first": Space(bool),
            "is_last": Space(bool),
            "is_terminal": Space(bool),
        }

    @property
    def act_space(self) -> dict[str, Space]:
        """Spaces of what `step` takes."""
        return {"action": Space(np.int32, (), 0, 3), "reset": Space(bool)}

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Move the basket and let the fruit fall."""
        first = bool(action["reset"]) or not self._left
        reward = 0.0
        if first:
            self._left = self.fruits
            self._basket = int(self._rng.integers(CELLS))
            self._drop()
        else:
            moved = self._basket + int(action["action"]) - STAY
            self._basket = min(max(moved, 0), CELLS - 1)
            reward = float(self._basket == self._column)
            self._fall()
        return {
            "image": self._draw(),
            "reward": np.float32(reward),
            "is_first": np.bool_(first),
            "is_last": np.bool_(not self._left),
            "is_terminal": np.bool_(not self._left),
        }

    def save(self) -> State:
        """Return the state of the game and the random generator."""
        game = [self._left, self._basket, self._column, self._row]
        return {"game": game, "rng": self._rng.bit_generator.state}

    def load(self, state: State) -> None:
        """Continue where `save` was called."""
        self._left, self._basket, self._column, self._row = state["game"]
        self._rng.bit_generator.state = state["rng"]

    def _drop(self) -> None:
        self._row, self._column = 0, int(self._rng.integers(CELLS))

    def _fall(self) -> None:
        self._row += 1
        if self._row == CELLS:
            self._left -= 1
            if self._left:
                self._drop()
            else:
                self._row = CELLS - 1

    def _draw(self) -> np.ndarray:
        picture = np.full((CELLS, CELLS, 3), SKY, np.uint8)
        picture[-1, self._basket] = BASKET
        picture[self._row, self._column] = FRUIT
        return picture
