"""When something is due: steps, clocks, rates, and the updates that steps pay for."""

import functools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sized
from typing import Any, NamedTuple, SupportsInt

import numpy as np


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


class Clock:
    """Answers whether it is time again, with one convention everywhere.

    `every` is 0 for never, negative for always (at every call), positive for a period in seconds.
    A period starts at the first call rather than at construction, so that a slow set-up is not
    counted.
    """

    def __init__(self, every: float, first: bool = False) -> None:
        """Create a clock.

        Args:
            every: Seconds between two times that are due; 0 is never, negative is always.
            first: Whether the first call is due already (not if `every` is 0).
        """
        self._every = float(every)
        self._first = first
        self._previous: float | None = None

    def __call__(self) -> bool:
        """Return whether it is due, and if so start the next period."""
        if self._every <= 0:
            return self._every < 0
        now = time.monotonic()
        if self._previous is None:
            self._previous = now
            return self._first
        if now < self._previous + self._every:
            return False
        self._previous = now
        return True


class Ratio:
    """Turns a growing step into a number of repetitions at a fixed rate.

    The first call returns 1 whatever the step, so that time spent waiting for data is not paid
    back. Later calls return the whole repetitions due since then and carry the rest over. A ratio
    of 0 always returns 0, a negative one always 1.
    """

    def __init__(self, ratio: float) -> None:
        self._ratio = float(ratio)
        self._previous: float | None = None
        self._last_step: int | None = None

    def __call__(self, step: SupportsInt) -> int:
        """Return the repetitions that are due at a step.

        Args:
            step: Current step, at least that of the previous call.

        Raises:
            ValueError: If the step goes backwards.
        """
        step = int(step)
        if self._last_step is not None and step < self._last_step:
            message = (
                f"Got step {step} after step {self._last_step}, expected it not to go backwards"
            )
            raise ValueError(f"{message}: load the state of this ratio together with the step.")
        self._last_step = step
        if self._ratio <= 0:
            return 1 if self._ratio < 0 else 0
        if self._previous is None:
            self._previous = step
            return 1
        repeats = int((step - self._previous) * self._ratio)
        self._previous += repeats / self._ratio
        return repeats

    def save(self) -> dict[str, Any]:
        """Return the position, so that a resumed run neither repeats nor skips."""
        return {"previous": self._previous, "last_step": self._last_step}

    def load(self, state: dict[str, Any]) -> None:
        """Continue at a saved position."""
        self._previous = None if state["previous"] is None else float(state["previous"])
        self._last_step = None if state["last_step"] is None else int(state["last_step"])


class UpdateSchedule:
    """Decides how many updates the steps so far pay for.

    Nothing is due until there are as many items as an update trains on steps; then the first step
    pays for one update, and later ones for `updates_per_step` on average. Waiting for items is
    never paid back, neither at the start nor when a resumed run has lost some of them.

    The state says how many updates were made and how many are still owed, so that a run which was
    stopped between two updates neither repeats nor skips one.

    Attributes:
        needed: Items that have to be there.
        made: Updates made, those before a restart included.
        owed: Updates that steps have paid for and that are not made yet.
    """

    def __init__(self, updates_per_step: float, needed: int, items: Sized) -> None:
        """Create the schedule.

        Args:
            updates_per_step: Updates per step; 0 for none, negative for one at every step.
            needed: Items that have to be there.
            items: What is learned from.
        """
        self.needed = needed
        self.made = 0
        self.owed = 0
        self._updates_per_step = updates_per_step
        self._items = items
        self._ratio = Ratio(updates_per_step)
        self._started = False

    @property
    def ready(self) -> bool:
        """Whether there is enough to learn from."""
        return len(self._items) >= self.needed

    @property
    def waiting(self) -> str:
        """What learning is waiting for, empty if for nothing."""
        if self.ready or not self._updates_per_step:
            return ""
        return f"learning waits for data: {len(self._items):,} of {self.needed:,} items"

    def due(self, step: SupportsInt, stopped: Callable[[], bool] = lambda: False) -> Iterator[int]:
        """Iterate over the updates that are due at a step.

        An update counts as made when the next one is asked for.

        Args:
            step: Steps so far.
            stopped: Whether to end before the next update, which is owed then.
        """
        if self.ready:
            self.owed += self._ratio(step)
        elif self._started:
            self._ratio = Ratio(self._updates_per_step)
        self._started = self.ready
        yield from self.make_owed(stopped)

    def make_owed(self, stopped: Callable[[], bool] = lambda: False) -> Iterator[int]:
        """Iterate over the updates that were due before, as `due` does."""
        while self.owed and self.ready and not stopped():
            yield self.made
            self.owed -= 1
            self.made += 1

    def restart(self, made: int) -> None:
        """Take over updates that something else has decided on; the next step pays for one."""
        self.made = made
        self._ratio = Ratio(self._updates_per_step)

    def save(self) -> dict[str, Any]:
        """Return the position."""
        return {
            "ratio": self._ratio.save(),
            "started": self._started,
            "due": self.owed,
            "updates": self.made,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue at a saved position."""
        self._ratio.load(state["ratio"])
        self._started = state["started"]
        self.owed = state["due"]
        self.made = state["updates"]


class Plan(NamedTuple):
    """Updates of the next steps of all environments together.

    Attributes:
        updates: How many updates each step of all environments pays for, int32 [M].
        after: After which environment's transition each of them is due, int32 [M, U].
    """

    updates: np.ndarray
    after: np.ndarray


class UpdatePlan:
    """Decides ahead what `UpdateSchedule` decides as it goes, where nothing can wait or fail.

    N environments step together and every transition is stored, so that the number of items follows
    from the step alone.

    Attributes:
        most: Largest number of updates U that a step of all environments pays for.
    """

    def __init__(
        self, updates_per_step: float, needed: int, envs: int, length: int, capacity: int
    ) -> None:
        """Create the plan.

        Args:
            updates_per_step: Updates per transition; 0 for none, negative for one at each.
            needed: Items that have to be there.
            envs: Number of environments N.
            length: Steps per item.
            capacity: Largest number of items.
        """
        self._items = _Count()
        self._schedule = UpdateSchedule(updates_per_step, needed, self._items)
        self._envs, self._length, self._capacity = envs, length, capacity
        self._rate = updates_per_step
        each = envs if updates_per_step < 0 else math.ceil(envs * updates_per_step) + 1
        self.most = max(each, 1) if updates_per_step else 1

    @property
    def made(self) -> int:
        """Updates planned so far."""
        return self._schedule.made

    @property
    def items(self) -> int:
        """Items that are there after the planned steps."""
        return len(self._items)

    @property
    def waiting(self) -> str:
        """What learning is waiting for, empty if for nothing."""
        return self._schedule.waiting

    @property
    def ready(self) -> bool:
        """Whether there is enough to learn from."""
        return self._schedule.ready

    def plan(self, position: int, count: int, size: int) -> Plan:
        """Plan the updates of steps that follow each other.

        Args:
            position: Number of the first step of all environments, from 0.
            count: How many of these steps.
            size: Length M of the arrays, at least `count`.
        """
        updates, after = np.zeros(size, np.int32), np.zeros((size, self.most), np.int32)
        for m in range(count):
            starts = position + m - self._length + 1
            self._items.value = self._at_most(self._envs * (starts + 1)) if starts >= 0 else 0
            if not self._rate or not self._schedule.ready:
                continue
            for env in range(self._envs):
                self._items.value = self._at_most(self._envs * starts + env + 1)
                for _ in self._schedule.due((position + m) * self._envs + env + 1):
                    after[m, updates[m]] = env
                    updates[m] += 1
        return Plan(updates, after)

    def save(self) -> dict[str, Any]:
        """Return the position."""
        return self._schedule.save()

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue at a saved position."""
        self._schedule.load(state)

    def _at_most(self, items: int) -> int:
        return min(items, self._capacity)


class _Count:
    """A number of things, instead of the things."""

    value = 0

    def __len__(self) -> int:
        return self.value
