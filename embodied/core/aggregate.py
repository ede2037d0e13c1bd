"""Combines the values that a metric takes between two log writes."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Aggregation = str | tuple[str, ...]


class _Reducer:
    """Running aggregates of one metric; keeps the values themselves only for `stack`."""

    def __init__(self, kinds: tuple[str, ...]) -> None:
        self._kinds = kinds
        self._count = 0
        self._sum: Any = 0.0
        self._min: Any = None
        self._max: Any = None
        self._first: Any = None
        self._last: Any = None
        self._all: list[Any] = []

    def add(self, value: Any) -> None:
        self._count += 1
        self._first = value if self._count == 1 else self._first
        self._last = value
        kinds = self._kinds
        if "avg" in kinds or "sum" in kinds:
            self._sum = self._sum + np.asarray(value, np.float64)
        if "min" in kinds:
            self._min = value if self._count == 1 else np.minimum(self._min, value)
        if "max" in kinds:
            self._max = value if self._count == 1 else np.maximum(self._max, value)
        if "stack" in kinds:
            self._all.append(value)

    def result(self, kind: str) -> Any:
        results: dict[str, Callable[[], Any]] = {
            "avg": lambda: self._sum / self._count,
            "sum": lambda: self._sum,
            "min": lambda: self._min,
            "max": lambda: self._max,
            "first": lambda: self._first,
            "last": lambda: self._last,
            "stack": lambda: np.stack(self._all),
        }
        return results[kind]()


AGGREGATIONS = ("avg", "sum", "min", "max", "first", "last", "stack")


class Agg:
    """Aggregates metrics by name until the result is asked for. Not safe for several threads."""

    def __init__(self) -> None:
        self._reducers: dict[str, _Reducer] = {}
        self._aggregations: dict[str, Aggregation] = {}

    def add(
        self,
        key_or_mapping: str | Mapping[str, Any],
        value: Any = None,
        agg: Aggregation = "default",
        prefix: str | None = None,
    ) -> None:
        """Take in one value or a mapping of values.

        Args:
          key_or_mapping: Name of the metric, or mapping from names to values.
          value: The value where a name is given: a number, an array or a text.
          agg: `avg`, `sum`, `min`, `max`, `first`, `last` or `stack`; a tuple of them gives one
            result each, named `<key>/<agg>`. `default` averages numbers and keeps the last text
            or array.
          prefix: Put in front of the names, separated by a slash.

        Raises:
          ValueError: If the aggregation is unknown or differs from that of earlier values.
        """
        mapping = {key_or_mapping: value} if isinstance(key_or_mapping, str) else key_or_mapping
        for key, item in mapping.items():
            self._add(f"{prefix}/{key}" if prefix else key, item, agg)

    def result(self, reset: bool = True, prefix: str | None = None) -> dict[str, Any]:
        """Return the aggregates by name.

        Args:
          reset: Whether to start over afterwards.
          prefix: Put in front of the names, separated by a slash.
        """
        results: dict[str, Any] = {}
        for key, reducer in self._reducers.items():
            name = f"{prefix}/{key}" if prefix else key
            aggregation = self._aggregations[key]
            if isinstance(aggregation, str):
                results[name] = reducer.result(aggregation)
            else:
                results.update({f"{name}/{kind}": reducer.result(kind) for kind in aggregation})
        if reset:
            self.reset()
        return results

    def reset(self) -> None:
        """Forget all values."""
        self._reducers.clear()
        self._aggregations.clear()

    def _add(self, key: str, value: Any, agg: Aggregation) -> None:
        value = value if isinstance(value, str) else np.asarray(value)
        if agg == "default":
            agg = "avg" if not isinstance(value, str) and value.ndim == 0 else "last"
        known = self._aggregations.get(key)
        if known is None:
            kinds = (agg,) if isinstance(agg, str) else tuple(agg)
            unknown = [kind for kind in kinds if kind not in AGGREGATIONS]
            if unknown:
                raise ValueError(
                    f"Got aggregation {unknown[0]!r} for metric '{key}', expected one of "
                    f"{', '.join(AGGREGATIONS)} or a tuple of them."
                )
            self._aggregations[key] = agg
            self._reducers[key] = _Reducer(kinds)
        elif known != agg:
            raise ValueError(
                f"Got aggregation {agg!r} for metric '{key}' that is aggregated by {known!r} "
                "already; use another name for it."
            )
        self._reducers[key].add(value)
