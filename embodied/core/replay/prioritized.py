"""Drawing items in proportion to the priorities of their steps."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.core.replay.selectors import FifoArray, Selector
from embodied.core.replay.stream import POSITION_BITS, POSITION_MASK


class _Track:
    """Priorities of the steps of one stream, and the numbers of the items that start at them."""

    def __init__(self, position: int) -> None:
        self.priorities = FifoArray(np.float32, position)
        self.items = FifoArray(np.int64, position)
        # Starts from this position on have no weight in the trees yet.
        self.pending = position


class Prioritized(Selector):
    """Draws an item in proportion to an aggregate of the priorities of its steps.

    With `p = priority ** exponent` per step, the weight of an item is
    `maxfrac * max(p) + (1 - maxfrac) * mean(p)` over its steps. Items with an infinite weight come
    before all others, uniformly among themselves; if all weights are 0, draws are uniform.
    """

    takes_priorities = True

    def __init__(
        self,
        exponent: float = 0.8,
        initial: float = np.inf,
        zero_on_sample: bool = True,
        maxfrac: float = 0.5,
        branching: int = 16,
        seed: int = 0,
    ) -> None:
        """Create an empty selector.

        Args:
            exponent: Power to which step priorities are raised.
            initial: Priority of a step that never got one.
            zero_on_sample: Set the priorities of all steps of a drawn item to 0, so that it is
                not drawn again before the learner has written new ones.
            maxfrac: Weight of the largest against the mean priority of an item.
            branching: Children per node of the sum trees.
            seed: Seed of the draws.

        Raises:
            ValueError: If an option is out of range.
        """
        super().__init__(seed)
        if not exponent >= 0 or not initial >= 0 or not 0 <= maxfrac <= 1:
            raise ValueError(
                f"Got exponent {exponent}, initial {initial}, maxfrac {maxfrac}, expected exponent "
                "and initial of at least 0 and maxfrac from 0 to 1."
            )
        self.exponent = exponent
        self.initial = initial
        self.zero_on_sample = zero_on_sample
        self.maxfrac = maxfrac
        self._length = 1
        self._finite = SumTree(1024, branching)
        self._infinite = SumTree(1024, branching)
        self._addresses = FifoArray(np.int64)
        self._tracks: dict[int, _Track] = {}
        self._cleared = 0

    def insert(self, address: int, length: int) -> None:
        """See base class. Weights are worked out at the next draw, many at a time."""
        self._length = length
        position = address & POSITION_MASK
        track = self._tracks.get(address >> POSITION_BITS)
        if track is None:
            track = self._tracks[address >> POSITION_BITS] = _Track(position)
        while track.priorities.stop < position + length:
            track.priorities.append(self.initial)
        track.items.append(self.stop)
        self._addresses.append(address)
        self.stop += 1

    def remove(self, address: int) -> None:
        """See base class."""
        self.first += 1
        self._addresses.popleft()
        track = self._tracks[address >> POSITION_BITS]
        track.items.popleft()
        track.priorities.drop_before(track.items.first)

    def forget(self, stream_start: int) -> None:
        """See base class."""
        self._tracks.pop(stream_start >> POSITION_BITS, None)

    def clear(self) -> None:
        """See base class."""
        branching = self._finite.branching
        self._finite, self._infinite = SumTree(1024, branching), SumTree(1024, branching)
        self._addresses = FifoArray(np.int64)
        self._tracks = {}
        self._cleared = 0
        super().clear()

    def sample(self, amount: int) -> np.ndarray:
        """See base class."""
        self._flush()
        if not self.zero_on_sample:
            return self._draw(amount)
        numbers = np.empty(amount, np.int64)
        zeros = np.zeros(self._length, np.float32)
        for index in range(amount):
            number = self._draw(1)[0]
            self.prioritize(self._addresses.get(int(number)), zeros)
            numbers[index] = number
        return numbers

    def prioritize(self, address: int, priorities: np.ndarray) -> None:
        """Set the priorities of consecutive steps from an address on; unknown steps are skipped.

        Args:
            address: Address of the first step.
            priorities: Not negative, infinity allowed, [steps].

        Raises:
            ValueError: If a priority is negative or NaN.
        """
        priorities = np.asarray(priorities, np.float32)
        if not (priorities >= 0).all():
            raise ValueError(f"Got priorities {priorities}, expected numbers of at least 0.")
        track = self._tracks.get(address >> POSITION_BITS)
        if track is None:
            return
        self._flush()
        position = address & POSITION_MASK
        start = max(position, track.priorities.first)
        stop = min(position + len(priorities), track.priorities.stop)
        if start >= stop:
            return
        track.priorities.put(np.arange(start, stop), priorities[start - position : stop - position])
        self._weigh(track, start - self._length + 1, stop)

    def step_priorities(self, address: int, count: int) -> np.ndarray:
        """See base class."""
        result = np.full(count, self.initial, np.float32)
        track = self._tracks.get(address >> POSITION_BITS)
        if track is not None:
            position = address & POSITION_MASK
            start = max(position, track.priorities.first)
            stop = min(position + count, track.priorities.stop)
            if start < stop:
                values = track.priorities.slice(start, stop)
                result[start - position : stop - position] = values
        return result

    def load(self, state: Mapping[str, Any]) -> None:
        """See base class; items and priorities have to be set before."""
        self._flush()
        super().load(state)

    def _draw(self, amount: int) -> np.ndarray:
        uniforms = self.rng.random(amount)
        if self._infinite.total > 0:
            slots = self._infinite.sample(uniforms)
        elif self._finite.total > 0:
            slots = self._finite.sample(uniforms)
        else:
            return self.first + (uniforms * len(self)).astype(np.int64)
        return self.first + (slots - self.first) % len(self._finite)

    def _flush(self) -> None:
        """Bring the trees up to date with the insertions and removals since the last draw."""
        if self.stop - self._cleared > len(self._finite):
            self._resize()
        if self._cleared < self.first:
            slots = np.arange(self._cleared, self.first) % len(self._finite)
            self._finite.set(slots, 0.0)
            self._infinite.set(slots, 0.0)
            self._cleared = self.first
        for track in self._tracks.values():
            if track.pending < track.items.stop:
                self._weigh(track, track.pending, track.items.stop)
                track.pending = track.items.stop

    def _resize(self) -> None:
        """Make room for all items; slots are item numbers modulo the size of the trees."""
        for track in self._tracks.values():
            track.pending = track.items.first
        size, branching = 2 * (self.stop - self.first), self._finite.branching
        self._finite, self._infinite = SumTree(size, branching), SumTree(size, branching)
        self._cleared = self.first

    def _weigh(self, track: _Track, start: int, stop: int) -> None:
        """Work out the weights of the items that start at `start` to `stop - 1`."""
        start, stop = max(start, track.items.first), min(stop, track.items.stop)
        if start >= stop:
            return
        powers = track.priorities.slice(start, stop + self._length - 1).astype(np.float64)
        powers = powers**self.exponent
        infinite = np.isinf(powers)
        powers[infinite] = 0.0
        view = np.lib.stride_tricks.sliding_window_view
        windows = view(powers, self._length)
        weights = self.maxfrac * windows.max(-1) + (1 - self.maxfrac) * windows.mean(-1)
        first = view(infinite, self._length).any(-1)
        slots = track.items.slice(start, stop) % len(self._finite)
        self._finite.set(slots, np.where(first, 0.0, weights))
        self._infinite.set(slots, first.astype(np.float64))


class SumTree:
    """Non-negative weights by index; draws and updates take logarithmic time.

    Every node is the sum of `branching` children. The levels are flat arrays, so that many draws
    or updates are a few array operations per level.
    """

    def __init__(self, size: int = 16, branching: int = 16) -> None:
        """Create a tree with all weights 0.

        Args:
            size: Number of weights to make room for.
            branching: Children per node, at least 2.
        """
        if branching < 2:
            raise ValueError(f"Got branching {branching}, expected at least 2.")
        self.branching = branching
        self._levels = self._build(np.zeros(max(size, 1)))

    @property
    def total(self) -> float:
        """Sum of all weights."""
        return float(self._levels[-1][0])

    def __len__(self) -> int:
        """Number of weights there is room for."""
        return len(self._levels[0])

    def set(self, indices: np.ndarray, weights: np.ndarray | float) -> None:
        """Change weights; indices must not repeat.

        Args:
            indices: int64 [n], below `len(self)`.
            weights: Finite and not negative, [n] or one for all.
        """
        self._levels[0][indices] = weights
        nodes = np.asarray(indices)
        for children, parents in zip(self._levels, self._levels[1:], strict=False):
            nodes = nodes // self.branching
            if len(nodes) > 1:
                nodes = np.unique(nodes)
            # Sums are taken afresh, so that rounding errors do not pile up.
            parents[nodes] = children.reshape(-1, self.branching)[nodes].sum(-1)

    def sample(self, uniforms: np.ndarray) -> np.ndarray:
        """Turn uniform numbers into indices drawn in proportion to the weights.

        Args:
            uniforms: In [0, 1), float64 [n].

        Returns:
            Indices int64 [n] with a positive weight.

        Raises:
            ValueError: If all weights are 0.
        """
        if not self.total > 0:
            raise ValueError("Got a draw from weights that are all 0, expected a positive one.")
        nodes = np.zeros(len(uniforms), np.int64)
        remaining = uniforms * self.total
        rows = np.arange(len(uniforms))
        for level in reversed(self._levels[:-1]):
            children = level.reshape(-1, self.branching)[nodes]
            edges = np.cumsum(children, -1)
            # Rounding may leave a remainder at or beyond the last edge; that belongs to the last
            # child with weight.
            remaining = np.minimum(remaining, np.nextafter(edges[:, -1], 0.0))
            picks = (edges <= remaining[:, None]).sum(-1)
            remaining = remaining - (edges[rows, picks] - children[rows, picks])
            remaining = np.maximum(remaining, 0.0)
            nodes = nodes * self.branching + picks
        return nodes

    def _build(self, weights: np.ndarray) -> list[np.ndarray]:
        levels = [self._padded(weights)]
        while len(levels[-1]) > 1:
            sums = levels[-1].reshape(-1, self.branching).sum(-1)
            levels.append(self._padded(sums) if len(sums) > 1 else sums)
        return levels

    def _padded(self, values: np.ndarray) -> np.ndarray:
        return np.pad(values, (0, -len(values) % self.branching))
