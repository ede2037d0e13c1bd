"""Growable ring of numbers, addressed by how many were ever appended before."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike


class FifoArray:
    """First-in first-out array whose entries keep their number for life.

    Entry `n` is the n-th that was ever appended; entries `first` to `stop - 1` are present. Once
    the number of entries stays bounded, so does the memory: it is reused in place.

    Attributes:
        first: Number of the oldest entry that is present.
        stop: Number that the next appended entry gets.
    """

    __slots__ = ("_data", "_mask", "first", "stop")

    def __init__(self, dtype: DTypeLike, first: int = 0, reserve: int = 256) -> None:
        """Create an empty array.

        Args:
            dtype: Type of the entries.
            first: Number that the first appended entry gets.
            reserve: Entries to make room for, rounded up to a power of two.
        """
        size = 1 << max(reserve - 1, 1).bit_length()
        self._data = np.zeros(size, dtype)
        self._mask = size - 1
        self.first = first
        self.stop = first

    def __len__(self) -> int:
        return self.stop - self.first

    def append(self, value: Any) -> None:
        """Append one entry."""
        stop = self.stop
        if stop - self.first > self._mask:
            self._grow(1)
        self._data[stop & self._mask] = value
        self.stop = stop + 1

    def extend(self, values: np.ndarray) -> None:
        """Append many entries in order."""
        if len(self) + len(values) > len(self._data):
            self._grow(len(values))
        self._data[np.arange(self.stop, self.stop + len(values)) & self._mask] = values
        self.stop += len(values)

    def popleft(self) -> Any:
        """Remove the oldest entry and return it.

        Raises:
            IndexError: If there is none.
        """
        first = self.first
        if first == self.stop:
            raise IndexError("Got popleft of an empty array, expected at least one entry.")
        self.first = first + 1
        return self._data.item(first & self._mask)

    def drop_before(self, number: int) -> None:
        """Remove all entries below a number."""
        self.first = max(self.first, min(number, self.stop))

    def get(self, number: int) -> Any:
        """Return one present entry as a Python number."""
        return self._data.item(number & self._mask)

    def take(self, numbers: np.ndarray) -> np.ndarray:
        """Return a copy of the present entries with these numbers."""
        return self._data[numbers & self._mask]

    def put(self, numbers: np.ndarray, values: Any) -> None:
        """Overwrite present entries; where a number occurs twice, the last value stays."""
        self._data[numbers & self._mask] = values

    def slice(self, start: int, stop: int) -> np.ndarray:
        """Return a copy of the present entries from `start` to `stop - 1`."""
        return self._data[np.arange(start, stop) & self._mask]

    def _grow(self, more: int) -> None:
        values = self.slice(self.first, self.stop)
        size = 1 << (len(values) + more - 1).bit_length()
        self._data = np.zeros(size, self._data.dtype)
        self._mask = size - 1
        self._data[np.arange(self.first, self.stop) & self._mask] = values
