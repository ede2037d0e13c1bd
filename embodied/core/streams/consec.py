"""Long sequences cut into consecutive training windows."""

from typing import Any

import numpy as np

from embodied.core.interfaces import State, Stream


class Consec(Stream):
    """Cuts every sequence of a source into `consec` windows that follow each other.

    Window i of a sequence is `data[:, i * length : i * length + length + prefix]`. It shares its
    first `prefix` steps with the window before, which serve as context, see `docs/notation.md`.
    Every window gets a key `consec`, int32 [B, length + prefix], filled with i.
    """

    def __init__(
        self, source: Stream, length: int, consec: int, prefix: int = 0, strict: bool = True
    ) -> None:
        """Wrap a stream of dicts of arrays [B, T, ...].

        Args:
            source: Stream of sequences.
            length: Steps per window without its prefix.
            consec: Windows per sequence.
            prefix: Context steps at the front of every window.
            strict: Whether sequences must be used up exactly; otherwise a longer sequence is cut.

        Raises:
            ValueError: If a number is out of range.
        """
        if length < 1 or consec < 1 or prefix < 0:
            raise ValueError(
                f"Got length {length}, consec {consec}, prefix {prefix}, expected length and "
                "consec of at least 1 and prefix of at least 0."
            )
        self._source = source
        self._length = length
        self._consec = consec
        self._prefix = prefix
        self._strict = strict
        self._index = 0
        self._current: dict[str, np.ndarray] | None = None

    def __next__(self) -> dict[str, np.ndarray]:
        """Return the next window.

        Raises:
            ValueError: If a sequence has not the length that the windows need.
        """
        if self._current is None:
            self._current = self._checked(next(self._source))
            self._index = 0
        start = self._index * self._length
        stop = start + self._length + self._prefix
        window = {key: value[:, start:stop] for key, value in self._current.items()}
        batch = len(next(iter(window.values())))
        window["consec"] = np.full((batch, stop - start), self._index, np.int32)
        self._index += 1
        if self._index == self._consec:
            self._current = None
        return window

    def save(self) -> State:
        """Return the position; in the middle of a sequence that includes the sequence."""
        return {"source": self._source.save(), "index": self._index, "current": self._current}

    def load(self, state: State) -> None:
        """Continue at a saved position."""
        self._source.load(state["source"])
        self._index = int(state["index"])
        self._current = state["current"]

    def close(self) -> None:
        """Close the source."""
        self._source.close()

    def _checked(self, data: dict[str, Any]) -> dict[str, np.ndarray]:
        needed = self._consec * self._length + self._prefix
        for key, value in data.items():
            got = np.shape(value)[1]
            if got < needed or (self._strict and got != needed):
                rule = "exactly" if self._strict else "at least"
                raise ValueError(
                    f"Got a sequence with {got} steps of key '{key}', expected {rule} {needed}: "
                    f"{self._consec} windows of {self._length} steps, prefix {self._prefix}."
                )
        return data
