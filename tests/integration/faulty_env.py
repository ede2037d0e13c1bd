"""An environment that misbehaves in one step, for whole runs of the program."""

import numpy as np

from embodied.core.interfaces import Env
from embodied.core.space import Space


class Faulty(Env):
    """Counts its steps, in episodes of ten.

    Args:
        kind: What goes wrong; `raise` for an exception.
        at: Number of the step in the life of the environment.
        worker: Which environment it is.
        index: Number of this one.
    """

    def __init__(self, kind="none", at=25, worker=1, index=0):
        self._kind, self._at = kind, at if worker in (index, -1) else 0
        self._steps, self._count, self._done = 0, 0, True

    @property
    def obs_space(self):
        return {
            "count": Space(np.float32, (3,), 0, 10),
            "reward": Space(np.float32),
            "is_first": Space(bool),
            "is_last": Space(bool),
            "is_terminal": Space(bool),
        }

    @property
    def act_space(self):
        return {"action": Space(np.int32, (), 0, 3), "reset": Space(bool)}

    def step(self, action):
        self._steps += 1
        first = bool(action["reset"]) or self._done
        self._count = 0 if first else self._count + 1
        self._done = self._count == 10
        obs = {
            "count": np.full(3, self._count, np.float32),
            "reward": np.float32(not first),
            "is_first": first,
            "is_last": self._done,
            "is_terminal": False,
        }
        return self._spoil(obs) if self._steps == self._at else obs

    def _spoil(self, obs):
        if self._kind == "raise":
            raise OSError("connection to the simulator lost")
        if self._kind == "tuple":
            return obs, {}
        if self._kind == "missing":
            del obs["count"]
        if self._kind == "extra":
            obs["more"] = np.float32(0)
        values = {
            "not_a_number": np.array([0, np.nan, 0], np.float32),
            "infinite": np.array([0, np.inf, 0], np.float32),
            "shape": np.zeros(4, np.float32),
            "dtype": np.zeros(3, np.float64),
            "object": np.array([0, None, 0]),
            "rounded": np.full(3, np.nextafter(np.float32(10), np.float32(20)), np.float32),
        }
        if self._kind in values:
            obs["count"] = values[self._kind]
        return obs
