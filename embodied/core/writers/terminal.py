"""Prints the most telling metrics as one line."""

import re
import sys
from collections.abc import Sequence

import numpy as np

from embodied.core.writers.writer import Record, Writer


class TerminalWriter(Writer):
    """One line per write: the step, then the newest value of each scalar whose key matches."""

    def __init__(self, pattern: str = ".*", name: str = "", limit: int = 40) -> None:
        """Create the output.

        Args:
          pattern: Regular expression searched in the keys.
          name: Name of the run, printed first.
          limit: Number of metrics per line; the line says how many were left out.
        """
        self._pattern = re.compile(pattern)
        self._name = name
        self._limit = limit

    def __call__(self, records: Sequence[Record]) -> None:
        """Print the line. Nothing is printed where no scalar matches."""
        scalars = {
            record.key: float(record.value)
            for record in records
            if record.kind == "scalar" and self._pattern.search(record.key)
        }
        if not scalars:
            return
        parts = [f"step {max(record.step for record in records):,}"]
        if self._name:
            parts.insert(0, self._name)
        shown = list(scalars.items())[: self._limit]
        parts += [f"{key} {format_number(value)}" for key, value in shown]
        if len(scalars) > self._limit:
            parts.append(f"and {len(scalars) - self._limit} more")
        print(" | ".join(parts), file=sys.stdout, flush=True)


def format_number(value: float) -> str:
    """Write a number in at most eight characters, with about three significant digits."""
    if not np.isfinite(value):
        return str(float(value))
    magnitude = abs(value)
    if value == int(value) and magnitude < 1e5:
        return str(int(value))
    if magnitude >= 1e12 or magnitude < 1e-3:
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    for unit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if magnitude >= unit:
            return f"{value / unit:.3g}{suffix}" if magnitude < 999.5 * unit else f"{value:.1e}"
    return f"{value:.3g}"
