"""Checks of dicts of values against their spaces, cheap enough for every environment step."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.core.space import Space

# Python numbers have no dtype of their own; these kinds of dtypes hold them with their meaning.
_SCALAR_KINDS = {bool: "b", int: "iuf", float: "f"}


class SpaceError(ValueError):
    """A value that does not fit its declared space."""


class SpacesCheck:
    """Raises if a dict of values has other keys, types, shapes, dtypes or ranges than declared.

    Keys starting with `log/` must be declared but may be left out. Arrays are checked strictly, a
    scalar space accepts the Python number of its kind as well.
    """

    def __init__(self, spaces: Mapping[str, Space], what: str) -> None:
        """Prepare the check.

        Args:
            spaces: Space of each key.
            what: Name of the dict in error messages, such as `observation`.
        """
        self._spaces = dict(spaces)
        self._what = what
        self._required = [self._entry(key) for key in spaces if not key.startswith("log/")]
        self._optional = [self._entry(key) for key in spaces if key.startswith("log/")]

    def __call__(self, values: Any) -> None:
        """Check a dict.

        Raises:
            SpaceError: Naming the first key that does not fit, what was expected and what was got.
        """
        # The exact type first, since asking the abstract class takes as long as checking a value.
        if type(values) is not dict and not isinstance(values, Mapping):
            message = f"expected a dict with keys {list(self._spaces)}, got {_describe(values)}"
            raise SpaceError(f"Invalid {self._what}: {message}.")
        found = 0
        for key, dtype, shape, fits in self._required:
            value = values.get(key)
            if (
                getattr(value, "dtype", None) != dtype
                or value.shape != shape  # type: ignore[union-attr]
                or not fits(value)
            ):
                self._check_slowly(key, values)
            found += 1
        for key, _, _, _ in self._optional:
            if key in values:
                self._check_slowly(key, values)
                found += 1
        if found != len(values):
            self._raise_extra(values)

    def _entry(self, key: str) -> tuple[str, np.dtype, tuple[int, ...], Any]:
        space = self._spaces[key]
        return key, space.dtype, space.shape, space.fits

    def _check_slowly(self, key: str, values: Mapping[str, Any]) -> None:
        """Second look at a value that failed the fast check, raising if it is really wrong."""
        if key not in values:
            message = f"expected keys {sorted(self._spaces)}, got {sorted(map(str, values))}"
            raise SpaceError(f"Invalid {self._what}: key {key!r} is missing: {message}.")
        value, space = values[key], self._spaces[key]
        if space.dtype.kind in _SCALAR_KINDS.get(type(value), ""):
            value = np.asarray(value, space.dtype)
        reason = space.explain(value)
        if reason is not None:
            raise SpaceError(f"Invalid {self._what}: key {key!r}: {reason}.")

    def _raise_extra(self, values: Mapping[str, Any]) -> None:
        extra = sorted(str(key) for key in values if key not in self._spaces)
        message = f"keys {extra} are not declared: expected keys {sorted(self._spaces)}"
        raise SpaceError(f"Invalid {self._what}: {message}, got {sorted(map(str, values))}.")


def _describe(value: Any) -> str:
    text = f"{type(value).__name__}"
    return f"a {text} of length {len(value)}" if isinstance(value, (tuple, list)) else f"a {text}"
