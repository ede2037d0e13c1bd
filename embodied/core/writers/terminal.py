"""Metrics on the terminal: lines of the most telling ones, and how the run is going."""

import io
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, TextIO

import numpy as np

from embodied.core.writers.writer import Record, Writer


class TerminalWriter(Writer):
    """One line per write: the step, then the newest value of each scalar whose key matches."""

    def __init__(self, pattern: str = ".*", name: str = "", limit: int = 40) -> None:
        """Create the writer.

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


_ERASE = "\r\x1b[2K"


class StatusLine(io.TextIOBase):
    """A terminal whose last line is replaced in place, with everything else printed above it.

    It takes the place of `sys.stdout`. Other processes write past it, so the cursor is left at the
    beginning of the line, where they overwrite it.
    """

    def __init__(self, terminal: TextIO) -> None:
        """Create the stream.

        Args:
          terminal: Where everything is written.
        """
        self._terminal = terminal
        self._lock = threading.RLock()
        self._shown = False
        self._at_line_start = True

    def show(self, text: str) -> None:
        """Replace the line, cut to the width of the terminal; an empty text removes it."""
        with self._lock:
            if not self._at_line_start:
                return  # Something without a line break is being printed.
            width = shutil.get_terminal_size().columns - 1
            self._terminal.write(f"{_ERASE if self._shown else ''}{text[:width]}\r")
            self._terminal.flush()
            self._shown = bool(text)

    def write(self, text: str) -> int:
        """Print above the line, which comes back when it is shown the next time."""
        with self._lock:
            if self._shown:
                self._terminal.write(_ERASE)
                self._shown = False
            if text:
                self._at_line_start = text.endswith("\n")
            return self._terminal.write(text)

    def flush(self) -> None:
        """Flush the terminal."""
        self._terminal.flush()

    def fileno(self) -> int:
        """Descriptor of the terminal."""
        return self._terminal.fileno()

    def isatty(self) -> bool:
        """Whether the terminal is one."""
        return self._terminal.isatty()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Encoding of the terminal."""
        return self._terminal.encoding


class LiveProgress(Writer):
    """Shows how far the run has come, and the newest score, every second until it is closed.

    The line is only for people who watch: `supported` says whether there is a terminal for it.
    """

    def __init__(self, period: float = 1.0) -> None:
        """Take over the standard output and start the thread that refreshes the line.

        Args:
          period: Seconds between refreshes.
        """
        self._period = period
        self._describe: Callable[[], str] | None = None
        self._score: float | None = None
        self._before: Any = sys.stdout
        self._line = StatusLine(sys.stdout)
        sys.stdout = self._line
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._refresh, name="progress", daemon=True)
        self._thread.start()

    @staticmethod
    def supported() -> bool:
        """Whether the standard output is a terminal that can replace a line."""
        return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"

    def __call__(self, records: Sequence[Record]) -> None:
        """Note the mean of the newest scores; nothing is printed."""
        for record in records:
            if record.key == "episode/score_mean" and not isinstance(record.value, str):
                self._score = float(record.value)

    def follow(self, describe: Callable[[], str]) -> None:
        """Show what the function returns; it is called in another thread."""
        self._describe = describe

    def close(self) -> None:
        """Remove the line and give the standard output back."""
        self._closed.set()
        self._thread.join()
        self._line.show("")
        if sys.stdout is self._line:
            sys.stdout = self._before

    def text(self) -> str:
        """Return the line; empty before the loop of the run has begun."""
        if self._describe is None:
            return ""
        score = [] if self._score is None else [f"score {format_number(self._score)}"]
        return " | ".join([self._describe(), *score])

    def _refresh(self) -> None:
        while not self._closed.wait(self._period):
            self._line.show(self.text())
