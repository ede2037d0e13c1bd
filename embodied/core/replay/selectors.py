"""Which stored items a batch is made of.

Items are numbered in the order in which they were inserted and go in the same order, so that the
present ones are always `first` to `stop - 1`. An item is the window of `length` steps that starts
at an address; consecutive steps of a worker have consecutive addresses.
"""

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

LOGGER = logging.getLogger(__name__)


class Selector(ABC):
    """Draws item numbers.

    The caller tells of every insertion and removal. Selectors are not thread-safe: the replay
    calls them under its lock.

    Attributes:
        first: Number of the oldest present item.
        stop: Number that the next item gets.
        takes_priorities: Whether `prioritize` has an effect.
    """

    takes_priorities = False

    def __init__(self, seed: int = 0) -> None:
        """Create an empty selector whose draws follow from the seed."""
        self.rng = np.random.default_rng(seed)
        self.first = 0
        self.stop = 0

    def __len__(self) -> int:
        return self.stop - self.first

    @property
    def kind(self) -> str:
        """What the state of `save` can be loaded into."""
        return type(self).__name__

    def insert(self, address: int, length: int) -> None:
        """Note a new item: the window of `length` steps from an address on."""
        self.stop += 1

    def extend(self, addresses: np.ndarray, length: int) -> None:
        """Note many new items in order."""
        for address in addresses.tolist():
            self.insert(address, length)

    def remove(self, address: int) -> None:
        """Note that the oldest item, which starts at the address, is gone."""
        self.first += 1

    @abstractmethod
    def sample(self, amount: int) -> np.ndarray:
        """Draw with replacement.

        Args:
            amount: How many items.

        Returns:
            Item numbers, int64 [amount].
        """

    def prioritize(self, address: int, priorities: np.ndarray) -> None:  # noqa: B027
        """Set the priorities of consecutive steps from an address on, [steps]; by default no-op."""

    def forget(self, stream_start: int) -> None:  # noqa: B027
        """Note that the stream whose first step has this address is gone altogether."""

    def clear(self) -> None:
        """Forget all items; the random generator goes on."""
        self.first = self.stop = 0

    def save(self) -> dict[str, Any]:
        """Return the state that does not follow from the items."""
        return {"kind": self.kind, "rng": json.dumps(self.rng.bit_generator.state)}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore what `save` of a selector of the same kind returned."""
        self.rng.bit_generator.state = json.loads(state["rng"])

    def step_priorities(self, address: int, count: int) -> np.ndarray | None:
        """Priorities of consecutive steps, float32 [count], None without `takes_priorities`."""
        return None


class Fifo(Selector):
    """Goes through the items from the oldest to the newest, one per draw, and starts over."""

    def __init__(self, seed: int = 0) -> None:
        """Create an empty selector; nothing is random about it."""
        super().__init__(seed)
        self._next = 0

    def sample(self, amount: int) -> np.ndarray:
        """See base class."""
        start = max(self._next, self.first)
        start = start if start < self.stop else self.first
        numbers = self.first + (start - self.first + np.arange(amount)) % len(self)
        self._next = int(numbers[-1]) + 1 if amount else self._next
        return numbers

    def clear(self) -> None:
        """See base class."""
        super().clear()
        self._next = 0

    def save(self) -> dict[str, Any]:
        """See base class; the place is counted from the oldest item."""
        return {**super().save(), "next": max(self._next - self.first, 0)}

    def load(self, state: Mapping[str, Any]) -> None:
        """See base class; the items have to be inserted before."""
        super().load(state)
        self._next = self.first + int(state["next"])


class Uniform(Selector):
    """Draws every present item with the same probability."""

    def extend(self, addresses: np.ndarray, length: int) -> None:
        """See base class."""
        self.stop += len(addresses)

    def sample(self, amount: int) -> np.ndarray:
        """See base class."""
        return self.rng.integers(self.first, self.stop, amount)


class Recency(Selector):
    """Draws an item of age 0, 1, 2, ... with probability proportional to (age + 1) ** -exponent.

    The age of an item is the number of items inserted after it.
    """

    def __init__(self, exponent: float = 1.0, seed: int = 0) -> None:
        """Create an empty selector.

        Args:
            exponent: How fast the probability falls with age; 0 is uniform.
            seed: Seed of the draws.
        """
        super().__init__(seed)
        self.exponent = exponent
        self._cumulative = np.zeros(1)

    def extend(self, addresses: np.ndarray, length: int) -> None:
        """See base class."""
        self.stop += len(addresses)

    def sample(self, amount: int) -> np.ndarray:
        """See base class."""
        if len(self) >= len(self._cumulative):
            self._extend_table(2 * len(self))
        edges = self._cumulative[1 : len(self) + 1]
        ages = np.searchsorted(edges, self.rng.random(amount) * edges[-1], side="right")
        numbers: np.ndarray = self.stop - 1 - np.minimum(ages, len(self) - 1)
        return numbers

    def _extend_table(self, size: int) -> None:
        weights = np.arange(1, size + 1, dtype=np.float64) ** -self.exponent
        self._cumulative = np.concatenate([[0.0], np.cumsum(weights)])


class Mixture(Selector):
    """Draws each item with one of several selectors, chosen at random by fraction."""

    def __init__(
        self, selectors: Mapping[str, Selector], fractions: Mapping[str, float], seed: int = 0
    ) -> None:
        """Create a mixture.

        Args:
            selectors: Selectors by name.
            fractions: Probability per name; selectors whose fraction is 0 are left out.
            seed: Seed of the choice between the selectors.

        Raises:
            ValueError: If names differ, a fraction is negative or they do not sum to 1.
        """
        super().__init__(seed)
        if set(selectors) != set(fractions):
            names = f"{sorted(fractions)}, expected those of the selectors: {sorted(selectors)}"
            raise ValueError(f"Got fractions for {names}.")
        values = list(fractions.values())
        if any(value < 0 for value in values) or abs(sum(values) - 1) > 1e-6:
            raise ValueError(f"Got fractions {dict(fractions)}, expected a sum of 1, none below 0.")
        self.selectors = {name: selectors[name] for name in fractions if fractions[name] > 0}
        used = np.array([fractions[name] for name in self.selectors])
        self.fractions = used / used.sum()
        self.takes_priorities = any(part.takes_priorities for part in self.selectors.values())

    @property
    def kind(self) -> str:
        """See base class."""
        return f"Mixture({', '.join(f'{k}: {x.kind}' for k, x in sorted(self.selectors.items()))})"

    def insert(self, address: int, length: int) -> None:
        """See base class."""
        self.stop += 1
        for selector in self.selectors.values():
            selector.insert(address, length)

    def extend(self, addresses: np.ndarray, length: int) -> None:
        """See base class."""
        self.stop += len(addresses)
        for selector in self.selectors.values():
            selector.extend(addresses, length)

    def remove(self, address: int) -> None:
        """See base class."""
        self.first += 1
        for selector in self.selectors.values():
            selector.remove(address)

    def sample(self, amount: int) -> np.ndarray:
        """See base class."""
        chosen = self.rng.choice(len(self.fractions), amount, p=self.fractions)
        numbers = np.empty(amount, np.int64)
        for index, selector in enumerate(self.selectors.values()):
            mask = chosen == index
            if mask.any():
                numbers[mask] = selector.sample(int(mask.sum()))
        return numbers

    def prioritize(self, address: int, priorities: np.ndarray) -> None:
        """See base class."""
        for selector in self.selectors.values():
            selector.prioritize(address, priorities)

    def forget(self, stream_start: int) -> None:
        """See base class."""
        for selector in self.selectors.values():
            selector.forget(stream_start)

    def clear(self) -> None:
        """See base class."""
        super().clear()
        for selector in self.selectors.values():
            selector.clear()

    def save(self) -> dict[str, Any]:
        """See base class."""
        parts = {name: selector.save() for name, selector in self.selectors.items()}
        return {**super().save(), "selectors": parts}

    def load(self, state: Mapping[str, Any]) -> None:
        """See base class."""
        super().load(state)
        for name, selector in self.selectors.items():
            selector.load(state["selectors"][name])

    def step_priorities(self, address: int, count: int) -> np.ndarray | None:
        """See base class."""
        for selector in self.selectors.values():
            if selector.takes_priorities:
                return selector.step_priorities(address, count)
        return None


def load_selector(selector: Selector, state: Mapping[str, Any]) -> None:
    """Restore what `Selector.save` returned; warn if it comes from a selector of another kind."""
    if state["kind"] == selector.kind:
        selector.load(state)
    else:
        LOGGER.warning(
            "The replay was saved with selector %s and goes on with %s: its random numbers and "
            "places start afresh, the items are the same.",
            state["kind"],
            selector.kind,
        )


class FifoArray:
    """Growable ring: an array from whose front entries go, and whose entries keep their number.

    Entry `n` is the n-th that was ever appended; entries `first` to `stop - 1` are present. Once
    the number of entries stays bounded, so does the memory: it is reused in place.

    Attributes:
        first: Number of the oldest entry that is present.
        stop: Number that the next appended entry gets.
    """

    __slots__ = ("_data", "_mask", "first", "stop")

    def __init__(self, dtype: DTypeLike, first: int = 0) -> None:
        """Create an empty array.

        Args:
            dtype: Type of the entries.
            first: Number that the first appended entry gets.
        """
        self._data: np.ndarray = np.zeros(256, dtype)
        self._mask = len(self._data) - 1
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
        values: np.ndarray = self._data[numbers & self._mask]
        return values

    def put(self, numbers: np.ndarray, values: Any) -> None:
        """Overwrite present entries; where a number occurs twice, the last value stays."""
        self._data[numbers & self._mask] = values

    def slice(self, start: int, stop: int) -> np.ndarray:
        """Return a copy of the present entries from `start` to `stop - 1`."""
        return self.take(np.arange(start, stop))

    def _grow(self, more: int) -> None:
        values = self.slice(self.first, self.stop)
        size = 1 << (len(values) + more - 1).bit_length()
        self._data = np.zeros(size, self._data.dtype)
        self._mask = size - 1
        self._data[np.arange(self.first, self.stop) & self._mask] = values
