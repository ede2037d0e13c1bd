"""An environment with one observation of every kind, for tests and the debug preset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs, State
from embodied.core.space import Space

TASKS = ("disc", "cont")
TOKENS = 256
CHOICES = 5


class Dummy(Env):
    """Cheap environment whose observations cover images, vectors, integers and scalars.

    It always has both a discrete and a continuous action, whatever the task; the task only names
    the run. Every step pays 1, so the return of an episode equals `length`. Apart from the noise in
    `vector`, an observation is a function of the step counter.
    """

    def __init__(
        self, task: str = "disc", size: tuple[int, int] = (64, 64), length: int = 100, seed: int = 0
    ) -> None:
        """Create the environment.

        Args:
          task: `disc` or `cont`.
          size: Height and width of the image in pixels.
          length: Steps after the reset until the episode ends.
          seed: Seed of the noise.
        """
        del task
        self._size = (int(size[0]), int(size[1]))
        self._length = length
        self._rng = np.random.default_rng(seed)
        self._count = 0
        self._done = True
        self._obs_space = {
            "image": Space(np.uint8, (*self._size, 3)),
            "vector": Space(np.float32, (7,)),
            "token": Space(np.int32, (), 0, TOKENS),
            "count": Space(np.float32, (), 0, length),
            "float2d": Space(np.float32, (4, 5)),
            "int2d": Space(np.int32, (2, 3), 0, 4),
            "reward": Space(np.float32),
            "is_first": Space(bool),
            "is_last": Space(bool),
            "is_terminal": Space(bool),
        }
        self._act_space = {
            "act_disc": Space(np.int32, (), 0, CHOICES),
            "act_cont": Space(np.float32, (6,), -1, 1),
            "reset": Space(bool),
        }

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of what `step` returns."""
        return self._obs_space

    @property
    def act_space(self) -> dict[str, Space]:
        """Spaces of what `step` takes."""
        return self._act_space

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Count one step; the last step of an episode is also its terminal one."""
        first = bool(action["reset"]) or self._done
        self._count = 0 if first else self._count + 1
        self._done = self._count >= self._length
        return {
            "image": np.full((*self._size, 3), self._count % 256, np.uint8),
            "vector": self._rng.standard_normal(7, np.float32),
            "token": np.int32(self._count % TOKENS),
            "count": np.float32(self._count),
            "float2d": np.full((4, 5), self._count / self._length, np.float32),
            "int2d": np.full((2, 3), self._count % 4, np.int32),
            "reward": np.float32(0 if first else 1),
            "is_first": np.bool_(first),
            "is_last": np.bool_(self._done),
            "is_terminal": np.bool_(self._done),
        }

    def save(self) -> State:
        """Return the position in the episode and the random generator."""
        return {
            "count": self._count,
            "done": self._done,
            "rng": self._rng.bit_generator.state,
        }

    def load(self, state: State) -> None:
        """Continue where `save` was called."""
        self._count = state["count"]
        self._done = state["done"]
        self._rng.bit_generator.state = state["rng"]
