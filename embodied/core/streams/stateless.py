"""Stream of what a function returns."""

from collections.abc import Callable, Iterator
from typing import Any

from embodied.core.interfaces import State, Stream


class Stateless(Stream):
    """Calls a function, or takes from an iterator, for every element; there is no position."""

    def __init__(
        self, source: Callable[..., Any] | Iterator[Any], *args: Any, **kwargs: Any
    ) -> None:
        """Wrap a function or an iterator.

        Args:
            source: Function that returns the next element and may raise StopIteration at the end,
                or an iterator.
            *args: For the function.
            **kwargs: For the function.

        Raises:
            TypeError: If the source is neither.
        """
        if callable(source):
            self._next: Callable[[], Any] = lambda: source(*args, **kwargs)
        elif isinstance(source, Iterator) and not args and not kwargs:
            self._next = source.__next__
        else:
            raise TypeError(f"Got {source!r}, expected a function or an iterator.")

    def __next__(self) -> Any:
        """Return the next element."""
        return self._next()

    def save(self) -> State:
        """Return None: what the function does next is not known here."""
        return None

    def load(self, state: State) -> None:
        """Do nothing."""
