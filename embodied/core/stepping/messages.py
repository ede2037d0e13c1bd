"""How observations and actions lie in the fixed-size messages between driver and workers."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.core.space import Space


def row_dtype(spaces: Mapping[str, Space]) -> np.dtype:
    """Structured dtype with one aligned field per key.

    Sorted, since environments with the same spaces may declare them in different order.
    """
    return np.dtype([(key, x.dtype, x.shape) for key, x in sorted(spaces.items())], align=True)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all of a message, however many calls that takes."""
    view = memoryview(data)
    while len(view):
        view = view[os.write(descriptor, view) :]


class ActionRow:
    """Memory of one action, read by a worker and unpacked for its environment."""

    def __init__(self, act_space: Mapping[str, Space]) -> None:
        row = np.zeros(1, row_dtype(act_space))
        self.buffer = row.view(np.uint8).data
        self._fields = [(key, row[key][0:1], not space.shape) for key, space in act_space.items()]

    def unpack(self) -> dict[str, Any]:
        """Return fresh arrays, or NumPy scalars where the shape is ()."""
        return {k: field[0] if scalar else field[0].copy() for k, field, scalar in self._fields}


class Reply:
    """Memory of one step message: a header, the observation, then `log/` values and their presence.

    The header is an int64: 0 if the observation follows, else the size of a pickled object that
    follows in its place. The part up to the log values has the same layout in every worker.
    """

    HEADER = 8

    def __init__(self, obs_space: Mapping[str, Space], log_space: Mapping[str, Space]) -> None:
        obs_dtype = row_dtype(obs_space)
        log_dtype = _log_dtype(log_space)
        self.size = self.HEADER + obs_dtype.itemsize + (log_dtype.itemsize if log_space else 0)
        self._log_offset = self.HEADER + obs_dtype.itemsize
        self._obs_dtype, self._log_dtype = obs_dtype, log_dtype
        self._log_keys = sorted(log_space)

    def packer(self) -> "ReplyPacker":
        """Return the writing side with memory of its own."""
        memory = np.zeros(self.size, np.uint8)
        obs = memory[self.HEADER : self._log_offset].view(self._obs_dtype)
        log = memory[self._log_offset :].view(self._log_dtype) if self._log_keys else None
        return ReplyPacker(memory, obs, log)

    def observations(self, memory: np.ndarray) -> np.ndarray:
        """View of the observations in messages.

        Args:
            memory: Array uint8 [N, bytes].

        Returns:
            Structured array [N].
        """
        return memory[:, self.HEADER : self._log_offset].view(self._obs_dtype)[:, 0]

    def logs(self, memory: np.ndarray) -> dict[str, Any]:
        """Fresh `log/` values of one message, uint8 [bytes], without those that were not set."""
        if not self._log_keys:
            return {}
        row = memory[self._log_offset : self.size].view(self._log_dtype)[0]
        present = row["present"]
        return {
            key: np.array(row[key]) for index, key in enumerate(self._log_keys) if present[index]
        }


class ReplyPacker:
    """Writes observations into the memory of one step message."""

    def __init__(self, memory: np.ndarray, obs: np.ndarray, log: np.ndarray | None) -> None:
        self.buffer = memory.data
        self._obs = [(key, obs[key]) for key in obs.dtype.names or ()]
        names = log.dtype.names or () if log is not None else ()
        self._log = [(key, log[key]) for key in names if log is not None and key != "present"]
        self._present = log["present"][0] if log is not None else None

    def pack(self, obs: Mapping[str, Any]) -> None:
        """Write a checked observation."""
        for key, field in self._obs:
            field[0] = obs[key]
        if self._present is None:
            return
        for index, (key, field) in enumerate(self._log):
            self._present[index] = key in obs
            if key in obs:
                field[0] = obs[key]


def _log_dtype(log_space: Mapping[str, Space]) -> np.dtype:
    fields = [(key, x.dtype, x.shape) for key, x in sorted(log_space.items())]
    return np.dtype([("present", bool, (len(log_space),)), *fields], align=True)
