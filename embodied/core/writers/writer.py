"""What the logger hands to its writers."""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

Kind = Literal["text", "scalar", "vector", "image", "video"]

_KIND_OF_RANK: dict[int, Kind] = {0: "scalar", 1: "vector", 2: "image", 3: "image", 4: "video"}


@dataclasses.dataclass(frozen=True)
class Record:
    """One logged value.

    Attributes:
      step: Environment frames at which the value was added.
      key: Metric name, parts separated by slashes.
      value: A text, or an array: scalar [], vector [F], image [H, W] or [H, W, channels], video
        [T, H, W, channels].
    """

    step: int
    key: str
    value: str | np.ndarray

    @property
    def kind(self) -> Kind:
        """What the value is; arrays are told apart by their number of dimensions."""
        if isinstance(self.value, str):
            return "text"
        return _KIND_OF_RANK[self.value.ndim]


class Writer(abc.ABC):
    """A destination of log records. It ignores the kinds of values that it cannot show."""

    @property
    def name(self) -> str:
        """What messages call this writer."""
        return type(self).__name__

    @abc.abstractmethod
    def __call__(self, records: Sequence[Record]) -> None:
        """Write the records, which come in the order in which they were added."""

    def follow(self, describe: Callable[[], str]) -> None:  # noqa: B027 (most show metrics only)
        """Take a function that says in a line how far the run has come."""

    def close(self) -> None:  # noqa: B027 (most writers hold nothing open)
        """Finish what is pending. Nothing is written afterwards."""
