"""Tree of partial sums for drawing proportionally to changing weights."""

import numpy as np


class SumTree:
    """Non-negative weights by index; draws and updates take logarithmic time.

    Every node is the sum of `branching` children. The levels are flat arrays, so that many draws
    or updates are a few array operations per level.
    """

    def __init__(self, size: int = 16, branching: int = 16) -> None:
        """Create a tree with all weights 0.

        Args:
            size: Number of weights to make room for; more are added on demand.
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

    def get(self, indices: np.ndarray) -> np.ndarray:
        """Weights at indices."""
        return self._levels[0][indices]

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

    def reserve(self, size: int) -> None:
        """Make room for at least `size` weights; the present ones stay where they are."""
        if size > len(self):
            weights = np.zeros(max(size, 2 * len(self)))
            weights[: len(self)] = self._levels[0]
            self._levels = self._build(weights)

    def _build(self, weights: np.ndarray) -> list[np.ndarray]:
        levels = [self._padded(weights)]
        while len(levels[-1]) > 1:
            sums = levels[-1].reshape(-1, self.branching).sum(-1)
            levels.append(self._padded(sums) if len(sums) > 1 else sums)
        return levels

    def _padded(self, values: np.ndarray) -> np.ndarray:
        return np.pad(values, (0, -len(values) % self.branching))
