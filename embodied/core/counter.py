"""A number shared between the parts of a run, such as the global step."""

import functools
from typing import SupportsInt


@functools.total_ordering
class Counter:
    """Mutable integer that several objects hold, with the checkpoint interface."""

    def __init__(self, initial: int = 0) -> None:
        self._value = int(initial)

    def increment(self, n: int = 1) -> None:
        """Add `n` to the value."""
        self._value += int(n)

    def save(self) -> int:
        """Return the value."""
        return self._value

    def load(self, state: SupportsInt) -> None:
        """Set the value to a saved one."""
        self._value = int(state)

    def __int__(self) -> int:
        return self._value

    def __index__(self) -> int:
        return self._value

    def __float__(self) -> float:
        return float(self._value)

    def __bool__(self) -> bool:
        return self._value != 0

    def __eq__(self, other: object) -> bool:
        return self._value == (other._value if isinstance(other, Counter) else other)

    def __lt__(self, other: "float | Counter") -> bool:
        return self._value < (other._value if isinstance(other, Counter) else other)

    # Like other mutable values, a counter cannot be a dictionary key.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Counter({self._value})"
