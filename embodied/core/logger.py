"""Collects metrics during a run and hands them to outputs such as the terminal or files."""

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from embodied.core.schedule import Counter
from embodied.core.writers.writer import Record, Writer

_LOG = logging.getLogger(__name__)
_MAX_RANK = 4


class Logger:
    """Buffers metrics together with the step at which they were added.

    A failing output never ends a run: its error becomes a warning, the other outputs still get the
    records, and it is tried again at the next write.

    Attributes:
      step: The counter of agent steps.
      multiplier: Environment frames per agent step, so that logged steps are frames.
    """

    def __init__(self, step: Counter, outputs: Sequence[Writer], multiplier: int = 1) -> None:
        """Create a logger.

        Args:
          step: Counter of agent steps, shared with the training loop.
          outputs: Destinations of the records.
          multiplier: Environment frames per agent step (the action repeat).

        Raises:
          ValueError: If the multiplier is not positive.
        """
        if multiplier < 1:
            raise ValueError(
                f"Got logger multiplier {multiplier}, expected a positive number of environment "
                "frames per agent step."
            )
        self.step = step
        self.multiplier = multiplier
        self._outputs = list(outputs)
        self._records: list[Record] = []

    def add(
        self, data: Mapping[str, Any] | str, value: Any = None, prefix: str | None = None
    ) -> None:
        """Buffer metrics at the current step.

        Args:
          data: Mapping from keys to values, or a single key.
          value: The value, where `data` is a single key. Texts, numbers and arrays of up to four
            dimensions are allowed: vector [F], image [H, W] or [H, W, channels], video
            [T, H, W, channels]; uint8, or float between 0 and 1.
          prefix: Put in front of the keys, separated by a slash.

        Raises:
          ValueError: If a value is neither a text nor a number nor an array of numbers.
        """
        mapping = {data: value} if isinstance(data, str) else data
        step = int(self.step) * self.multiplier
        for key, item in mapping.items():
            name = f"{prefix}/{key}" if prefix else key
            self._records.append(Record(step, name, _as_value(name, item)))

    def attach(self, output: Writer) -> None:
        """Add a destination of the records."""
        self._outputs.append(output)

    def write(self) -> None:
        """Hand the buffered records to every output and empty the buffer."""
        if not self._records:
            return
        records, self._records = self._records, []
        for output in self._outputs:
            self._guard(output, "write metrics", functools.partial(output, records))

    def follow(self, describe: Callable[[], str]) -> None:
        """Give the outputs a function that says in a line how far the run has come."""
        for output in self._outputs:
            self._guard(output, "follow the run", functools.partial(output.follow, describe))

    def close(self) -> None:
        """Write what is still buffered and close the outputs."""
        self.write()
        for output in self._outputs:
            self._guard(output, "close", output.close)

    def _guard(self, output: Writer, task: str, function: Callable[[], None]) -> None:
        try:
            function()
        except Exception as error:
            _LOG.warning(
                "Log output %s failed to %s at step %d and training goes on without it: %s: %s",
                output.name,
                task,
                int(self.step) * self.multiplier,
                type(error).__name__,
                error,
            )


def _as_value(key: str, value: Any) -> str | np.ndarray:
    if isinstance(value, str):
        return value
    array = np.asarray(value)
    if array.ndim > _MAX_RANK or array.dtype.kind in "OUSMm":
        raise ValueError(
            f"Got metric '{key}' of type {type(value).__name__}, dtype {array.dtype} and shape "
            f"{array.shape}, expected a text, a number or a numeric array of up to "
            f"{_MAX_RANK} dimensions; convert it before logging."
        )
    return array
