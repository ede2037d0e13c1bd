"""Sorts log records for services that take them step by step."""

from collections.abc import Mapping, Sequence

import numpy as np

from embodied.core.writers.writer import Record


def by_step(records: Sequence[Record]) -> Mapping[int, list[Record]]:
    """Group records by step, smaller steps first; of a key that repeats, all are kept in order."""
    groups: dict[int, list[Record]] = {}
    for record in records:
        groups.setdefault(record.step, []).append(record)
    return dict(sorted(groups.items()))


def finite(values: np.ndarray) -> np.ndarray:
    """The numbers of a vector that histograms can show, [N] float64."""
    numbers = values.astype(np.float64)
    return numbers[np.isfinite(numbers)]
