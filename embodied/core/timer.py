"""Measures where the time of a run goes."""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Iterator


@dataclasses.dataclass
class _Section:
    count: int = 0
    seconds: float = 0.0
    longest: float = 0.0


class Timer:
    """Sums up the time spent in named sections, from any thread.

    Sections may be nested or run in several threads at once; each counts its full time, so the
    shares can add up to more than one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sections: dict[str, _Section] = {}
        self._start = time.perf_counter()

    @contextlib.contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Measure the body of a `with` statement, also when it raises."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.record(name, time.perf_counter() - start)

    def record(self, name: str, seconds: float) -> None:
        """Add a duration that was measured elsewhere."""
        with self._lock:
            section = self._sections.setdefault(name, _Section())
            section.count += 1
            section.seconds += seconds
            section.longest = max(section.longest, seconds)

    def stats(self, reset: bool = True) -> dict[str, float | str]:
        """Return what was measured since the start or the last reset.

        Args:
          reset: Whether to start over.

        Returns:
          Per section `<name>/seconds|share|count|avg|max` (seconds, and share of the wall-clock
          time), and `summary`, the same as a text with the largest share first.
        """
        with self._lock:
            now = time.perf_counter()
            elapsed = max(now - self._start, 1e-9)
            sections = {key: dataclasses.replace(sec) for key, sec in self._sections.items()}
            if reset:
                self._sections.clear()
                self._start = now
        stats: dict[str, float | str] = {}
        lines = [f"{elapsed:.1f} s since the last summary"]
        for name, sec in sorted(sections.items(), key=lambda item: -item[1].seconds):
            average = sec.seconds / sec.count
            stats[f"{name}/seconds"] = sec.seconds
            stats[f"{name}/share"] = sec.seconds / elapsed
            stats[f"{name}/count"] = sec.count
            stats[f"{name}/avg"] = average
            stats[f"{name}/max"] = sec.longest
            lines.append(
                f"{sec.seconds / elapsed:6.1%}  {name:<16} {sec.seconds:9.2f} s  {sec.count:8d} x "
                f"{average * 1e3:9.2f} ms  max {sec.longest * 1e3:9.2f} ms"
            )
        stats["summary"] = "\n".join(lines)
        return stats
