"""Streams made of a function or of other streams."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

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
        close_all(self._sources)


class Mixer(Stream):
    """Takes every element from one of several sources, chosen at random by weight.

    A source that ends, ends the mixture.
    """

    def __init__(
        self, sources: Mapping[str, Stream], weights: Mapping[str, float], seed: int = 0
    ) -> None:
        """Mix streams.

        Args:
            sources: Streams by name.
            weights: Relative frequency per name; a source with weight 0 is never used.
            seed: Seed of the choices.

        Raises:
            ValueError: If names differ, a weight is negative or all are 0.
        """
        if set(sources) != set(weights):
            names = f"{sorted(weights)}, expected those of the sources: {sorted(sources)}"
            raise ValueError(f"Got weights for {names}.")
        values = np.array([float(weights[name]) for name in sources])
        if not (values >= 0).all() or not 0 < values.sum() < np.inf:
            raise ValueError(f"Got weights {dict(weights)}, expected some above 0, none below.")
        self._sources = dict(sources)
        self._names = list(sources)
        self._probs = values / values.sum()
        self._rng = np.random.default_rng(seed)

    def __next__(self) -> Any:
        """Return the next element of a random source."""
        name = self._names[self._rng.choice(len(self._names), p=self._probs)]
        return next(self._sources[name])

    def save(self) -> State:
        """Return the positions of the sources and the state of the choices."""
        parts = {name: source.save() for name, source in self._sources.items()}
        return {"sources": parts, "rng": json.dumps(self._rng.bit_generator.state)}

    def load(self, state: State) -> None:
        """Continue at saved positions."""
        for name, source in self._sources.items():
            source.load(state["sources"][name])
        self._rng.bit_generator.state = json.loads(state["rng"])

    def close(self) -> None:
        """Close all sources."""
        close_all(self._sources.values())


def close_all(streams: Collection[Stream]) -> None:
    """Close streams at the same time: several that are stuck take no longer than one.

    Raises:
        Exception: The first that closing one of them has raised; all others are closed.
    """
    with ThreadPoolExecutor(max(len(streams), 1), "close") as pool:
        for closed in [pool.submit(stream.close) for stream in streams]:
            closed.result()
