"""How far a run has come and when it will be done."""

import time

_MEASURED_UPDATES = 20
_MEASURED_SECONDS = 10


class Rate:
    """Events per second since the last result."""

    def __init__(self) -> None:
        self._count = 0
        self._start = time.perf_counter()
        self._result = 0.0

    def step(self, amount: int = 1) -> None:
        """Count events."""
        self._count += amount

    def result(self) -> float:
        """Return the events per second and start over."""
        now = time.perf_counter()
        rate = self._count / max(now - self._start, 1e-9)
        self._count, self._start, self._result = 0, now, rate
        return rate

    def current(self) -> float:
        """Return the events per second without starting over; the last result while it is new."""
        seconds = time.perf_counter() - self._start
        return self._count / seconds if seconds >= _MEASURED_SECONDS else self._result


class Progress:
    """Position of a run in its budget of agent steps, and the time that is left.

    The time left follows from the duration of an update, waiting for the environments included,
    and from the number of updates that the steps left pay for. The first update is not measured,
    because it may compile.
    """

    def __init__(self, budget: int, updates_per_step: float, duration: float = 0) -> None:
        """Create the meter.

        Args:
          budget: Agent steps at which the run ends.
          updates_per_step: Updates that an agent step pays for; 0 where nothing is learned.
          duration: Seconds after which the run ends earlier; 0 for no limit.
        """
        self._budget = budget
        # Negative for an update at every step.
        self._updates_per_step = updates_per_step if updates_per_step >= 0 else 1.0
        self._duration = duration
        self._start = time.perf_counter()
        self._updates = 0
        self._mark: tuple[float, int] | None = None
        self._seconds_per_update: float | None = None
        self._announced = False
        self.rate = Rate()

    def on_update(self, step: int, count: int = 1) -> None:
        """Count updates; the estimate is printed when enough of them have been measured."""
        self._updates += count
        if self._mark is None:
            self._mark = (time.perf_counter(), self._updates)
        elif not self._announced and self._updates - self._mark[1] >= _MEASURED_UPDATES:
            first = self._mark[1]
            self.measure()
            self._announced = True
            left = self.seconds_left(step, env_rate=0)
            if left is not None:
                measured = self._updates - first
                print(
                    f"Measured {measured} updates: {self._seconds_per_update:.3g} s per "
                    f"update with its environment steps, about {format_duration(left)} for the "
                    "rest of the budget.",
                    flush=True,
                )

    def seconds_left(self, step: int, env_rate: float) -> float | None:
        """Estimate the time to the end of the budget, None while that is unknown.

        Args:
          step: Agent steps so far.
          env_rate: Agent steps per second, used where nothing is learned.
        """
        steps = max(self._budget - step, 0)
        left: float | None = None
        if self._updates_per_step and self._seconds_per_update is not None:
            left = steps * self._updates_per_step * self._seconds_per_update
        elif not self._updates_per_step and env_rate:
            left = steps / env_rate
        if self._duration:
            limit = max(self._duration - (time.perf_counter() - self._start), 0)
            left = limit if left is None else min(left, limit)
        return left

    @property
    def out_of_time(self) -> bool:
        """Whether the allowed duration is over."""
        return bool(self._duration) and time.perf_counter() - self._start >= self._duration

    def line(self, step: int, updates: int, env_rate: float, waiting: str = "") -> str:
        """Describe the position in one line; the time left follows from the last measurement.

        Args:
          step: Agent steps so far.
          updates: Updates so far, those before a restart included.
          env_rate: Agent steps per second.
          waiting: What learning is waiting for, if it is.
        """
        left = self.seconds_left(step, env_rate)
        share = step / self._budget if self._budget else 1.0
        parts = [
            f"Step {step:,} of {self._budget:,} ({share:.1%})",
            f"{updates:,} updates",
            f"{env_rate:.1f} env steps/s",
            "time left not known yet" if left is None else f"{format_duration(left)} left",
        ]
        return " | ".join([*parts, waiting] if waiting else parts)

    def measure(self) -> None:
        """Average the time per update since the last measurement, if there are enough of them."""
        if self._mark is None or self._updates == self._mark[1]:
            return
        start, first = self._mark
        now, count = time.perf_counter(), self._updates - first
        if count >= _MEASURED_UPDATES:
            self._mark = (now, self._updates)
        elif self._announced:
            return
        self._seconds_per_update = (now - start) / count


def format_duration(seconds: float) -> str:
    """Write a duration with its two largest units."""
    seconds = round(seconds)
    for size, unit, small_size, small_unit in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if seconds >= size:
            return f"{seconds // size} {unit} {seconds % size // small_size} {small_unit}"
    return f"{seconds} s"
