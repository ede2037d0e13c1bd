"""Several streams side by side."""

from collections.abc import Sequence
from typing import Any

from embodied.core.interfaces import State, Stream


class Zip(Stream):
    """Yields a tuple with one element of every source; ends when the first of them ends."""

    def __init__(self, sources: Sequence[Stream]) -> None:
        """Wrap streams.

        Raises:
            ValueError: If there are none.
        """
        if not sources:
            raise ValueError("Got no sources, expected at least one stream.")
        self._sources = list(sources)

    def __next__(self) -> tuple[Any, ...]:
        """Return the next element of each source."""
        return tuple([next(source) for source in self._sources])

    def save(self) -> State:
        """Return the positions of the sources."""
        return [source.save() for source in self._sources]

    def load(self, state: State) -> None:
        """Continue the sources at saved positions."""
        for source, part in zip(self._sources, state, strict=True):
            source.load(part)

    def close(self) -> None:
        """Close all sources."""
        for source in self._sources:
            source.close()
