"""Several streams in random turns."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.core.interfaces import State, Stream


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
        for source in self._sources.values():
            source.close()
