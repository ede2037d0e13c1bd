"""Stream with a function applied to every element."""

from collections.abc import Callable
from typing import Any

from embodied.core.interfaces import State, Stream


class Map(Stream):
    """Applies `fn(element, *args, **kwargs)` to the elements of another stream."""

    def __init__(self, source: Stream, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Wrap a stream."""
        self._source = source
        self._fn = fn
        self._args = args
        self._kwargs = kwargs

    def __next__(self) -> Any:
        """Return the next element, transformed."""
        return self._fn(next(self._source), *self._args, **self._kwargs)

    def save(self) -> State:
        """Return the position of the source."""
        return self._source.save()

    def load(self, state: State) -> None:
        """Continue the source at a saved position."""
        self._source.load(state)

    def close(self) -> None:
        """Close the source."""
        self._source.close()
