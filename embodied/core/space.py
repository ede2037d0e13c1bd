"""Description of one array that an environment or agent exchanges, and checks against it."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

# Python numbers have no dtype of their own; these kinds of dtypes hold them with their meaning.
_SCALAR_KINDS = {bool: "b", int: "iuf", float: "f"}


class Space:
    """Dtype, shape and bounds of one observation, action or stored value.

    Bounds are per element. Integers lie in `low <= value < high` (`high` is exclusive), floats in
    `low <= value <= high`. A bound that is not given is the range of the dtype: for floats that
    means any *finite* number, whereas an explicit `low=-inf` or `high=inf` says that the infinity
    itself is a legal value (for example to mark an entry as unavailable).

    Attributes:
        dtype: The NumPy dtype (types of ml_dtypes such as bfloat16 are allowed).
        shape: Shape of one value, without batch or time dimensions.
        low: Read-only array of the space's shape. Floats in the space's dtype, others int64.
        high: Read-only array of the space's shape. Floats in the space's dtype, others int64 (the
            limits of 64-bit integers saturate).
    """

    def __init__(
        self,
        dtype: DTypeLike,
        shape: int | tuple[int, ...] | list[int] = (),
        low: Any = None,
        high: Any = None,
    ) -> None:
        """Create a space; bounds are numbers or arrays that broadcast to the shape.

        Raises:
            ValueError: If the dtype is not numeric or the bounds do not fit shape or each other.
        """
        self.dtype = np.dtype(dtype)
        self.shape = (shape,) if isinstance(shape, int) else tuple(int(size) for size in shape)
        self._floating = _is_float(self.dtype)
        if not self._floating and self.dtype.kind not in "biu":
            raise ValueError(f"Got dtype {self.dtype}, expected a bool, integer or float dtype.")
        self._args = (low, high)
        self.low = self._bound(low, "low")
        self.high = self._bound(high, "high")
        wrong = self.low > self.high if self._floating else self.low >= self.high
        if np.any(wrong):
            rule = "low <= high" if self._floating else "low < high, as high is exclusive"
            raise ValueError(
                f"Got bounds {_brief(self.low)} and {_brief(self.high)}, expected {rule}."
            )
        self._prepare_checks()

    @property
    def discrete(self) -> bool:
        """Whether values are integers or bools."""
        return not self._floating

    @property
    def classes(self) -> int | np.ndarray:
        """Number of different values, `high - low`: an int if the shape is (), else per element.

        Raises:
            ValueError: If the space is not discrete.
        """
        if not self.discrete:
            raise ValueError(f"Got {self}, expected a discrete space: floats have no classes.")
        classes = self.high - self.low
        if np.any(classes <= 0):
            raise ValueError(f"Got {self}, expected bounds: there are too many classes to count.")
        return classes if self.shape else int(classes)

    def astype(self, dtype: DTypeLike) -> "Space":
        """Space of another dtype of the same kind, with the same bounds as far as they were given.

        Integer bounds beyond the range of the new dtype are cut off.
        """
        low, high = self._args
        if self.discrete:
            widest = Space(dtype)
            low = None if low is None else np.maximum(self.low, widest.low)
            high = None if high is None else np.minimum(self.high, widest.high)
        return Space(dtype, self.shape, low, high)

    def stack(self, count: int) -> "Space":
        """Space of `count` values in one array, with a leading dimension."""
        return Space(self.dtype, (count, *self.shape), *self._args)

    def sample(self, rng: np.random.Generator | None = None) -> np.ndarray:
        """Draw a value: uniform within bounds, standard normal around what is unbounded.

        Args:
            rng: Source of randomness, a fresh unseeded one if None.

        Returns:
            Array of the space's dtype and shape.
        """
        rng = np.random.default_rng() if rng is None else rng
        if self.discrete:
            # Half-open int64 ranges overflow for the full 64 bits, closed ones do not.
            drawn = rng.integers(self.low, self.high - 1, self.shape, np.int64, endpoint=True)
            return np.asarray(drawn, self.dtype)
        low, high = self.low.astype(np.float64), self.high.astype(np.float64)
        # Bounds this large (such as the largest float32) stand for "none" and would overflow.
        has_low, has_high = np.abs(low) < 1e30, np.abs(high) < 1e30
        normal = rng.standard_normal(self.shape)
        uniform = rng.random(self.shape)
        start, stop = np.where(has_low, low, 0.0), np.where(has_high, high, 0.0)
        value = np.where(has_low & has_high, start + (stop - start) * uniform, normal)
        value = np.where(has_low & ~has_high, start + np.abs(normal), value)
        value = np.where(~has_low & has_high, stop - np.abs(normal), value)
        return np.clip(value, low, high).astype(self.dtype)

    def explain(self, value: Any) -> str | None:
        """Say why a value is not in the space, or return None if it is.

        Args:
            value: Anything; array-likes are strict about shape and dtype.

        Returns:
            A phrase with expected and actual, for example `expected shape (3,), got (4,)`.
        """
        try:
            value = np.asarray(value)
        except ValueError as error:
            return f"expected {self}, got a ragged {type(value).__name__} ({error})"
        if value.dtype != self.dtype:
            return f"expected dtype {self.dtype}, got {value.dtype}"
        if value.shape != self.shape:
            return f"expected shape {self.shape}, got {value.shape}"
        if self.fits(value):
            return None
        return self._explain_range(value)

    def fits(self, value: Any) -> bool:
        """Whether an array of the right dtype and shape is within bounds and free of NaN.

        This is the cheap half of the check, made to run at every environment step.

        Args:
            value: Array or NumPy scalar; dtype and shape must have been checked before.
        """
        if self._range is None:
            return not self._floating or self._all_finite(value)
        # A NaN makes every comparison false.
        low, high = self._range
        if not self.shape:
            return bool(low <= value.item() <= high)
        # Counting is three times as fast as `all` for the small arrays that observations are.
        size: int = value.size
        inside: bool = np.count_nonzero(value >= low) == size
        return inside and size == np.count_nonzero(value <= high)

    def __contains__(self, value: Any) -> bool:
        return self.explain(value) is None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Space):
            return NotImplemented
        return (
            self.dtype == other.dtype
            and self.shape == other.shape
            and np.array_equal(self.low, other.low)
            and np.array_equal(self.high, other.high)
            and self._infinite == other._infinite
        )

    def __hash__(self) -> int:
        return hash((self.dtype, self.shape, self._infinite))

    def __reduce__(self) -> tuple[Any, ...]:
        return Space, (self.dtype, self.shape, *self._args)

    def __repr__(self) -> str:
        low, high = self._args
        bounds = "" if low is None else f", low={_brief(self.low)}"
        bounds += "" if high is None else f", high={_brief(self.high)}"
        return f"Space({self.dtype}, {self.shape}{bounds})"

    def _bound(self, bound: Any, name: str) -> np.ndarray:
        dtype = self.dtype if self._floating else np.dtype(np.int64)
        if bound is None:
            bound = self._default_bound(name)
        elif np.any(np.isnan(np.asarray(bound, np.float64))):
            raise ValueError(f"Got {name}={bound}, expected numbers: a bound cannot be NaN.")
        elif not self._floating:
            bound = self._integer_bound(bound, name)
        try:
            # A copy, so that nothing the caller does to its array changes the space.
            return np.broadcast_to(np.array(bound, dtype), self.shape)
        except ValueError:
            message = (
                f"Got {name} of shape {np.shape(bound)}, expected to broadcast to {self.shape}."
            )
            raise ValueError(message) from None

    def _default_bound(self, name: str) -> float | int:
        if self._floating:
            return -math.inf if name == "low" else math.inf
        if self.dtype == bool:
            return 0 if name == "low" else 2
        info = np.iinfo(self.dtype)
        return int(info.min) if name == "low" else min(int(info.max) + 1, np.iinfo(np.int64).max)

    def _integer_bound(self, bound: Any, name: str) -> np.ndarray:
        numbers = np.asarray(bound, object)
        smallest = self._default_bound("low")
        largest = self._default_bound("high")
        if any(x != int(x) or not smallest <= x <= largest for x in numbers.ravel()):
            message = f"Got {name}={bound}, expected whole numbers from {smallest} to {largest}"
            raise ValueError(f"{message}, the range of {self.dtype}.")
        return numbers.astype(np.int64)

    def _prepare_checks(self) -> None:
        """Precompute the closed range to compare with, None where the dtype is range enough."""
        low, high = self._args
        self._infinite = (
            self._floating and low is not None and bool(np.isneginf(self.low).any()),
            self._floating and high is not None and bool(np.isposinf(self.high).any()),
        )
        self._range: tuple[Any, Any] | None = None
        if not self._floating:
            full = (self.low == self._default_bound("low")).all()
            if not (full and (self.high == self._default_bound("high")).all()):
                self._range = self._closed_range(self.low, self.high - 1, self.dtype)
        elif low is not None or high is not None:
            # What has no bound must still be finite; infinite bounds let infinities pass.
            dtype = self.dtype if self.dtype.itemsize >= 4 else np.dtype(np.float32)
            largest = np.full(self.shape, float(np.finfo(dtype).max))
            lower, upper = self.low.astype(np.float64), self.high.astype(np.float64)
            lower = -largest if low is None else -_widened(-lower, largest)
            upper = largest if high is None else _widened(upper, largest)
            self._range = self._closed_range(lower, upper, dtype)

    def _closed_range(self, low: np.ndarray, high: np.ndarray, dtype: np.dtype) -> tuple[Any, Any]:
        """Bounds to compare with: Python numbers for scalars, else arrays of one dtype."""
        if not self.shape:
            return low.item(), high.item()
        return np.array(low, dtype), np.array(high, dtype)

    def _all_finite(self, value: Any) -> bool:
        if not self.shape:
            return math.isfinite(value)
        finite: bool = np.count_nonzero(np.isfinite(value)) == value.size
        return finite

    def _explain_range(self, value: np.ndarray) -> str:
        if self._floating and np.isnan(value).any():
            return f"expected numbers, got NaN at index {_where(np.isnan(value))}: {_brief(value)}"
        low = self.low.astype(np.float64) if self._floating else self.low
        high = self.high.astype(np.float64) if self._floating else self.high - 1
        bad = (value < low) | (value > high)
        if self._floating and not bad.any():
            bad = ~np.isfinite(value)
        found = f"got {value[bad].ravel()[0]} at index {_where(bad)}"
        if self._range is None:
            return f"expected finite numbers, {found}: {_brief(value)}"
        closing = "]" if self._floating else ")"
        bounds = f"[{_brief(self.low)}, {_brief(self.high)}{closing}"
        return f"expected finite values within {bounds}, {found}: {_brief(value)}"


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


def _is_float(dtype: np.dtype) -> bool:
    """Whether values are real floating point numbers, bfloat16 and its kind included."""
    if dtype.kind == "f":
        return True
    if dtype.kind != "V" or dtype.names or dtype.subdtype or dtype.type is np.void:
        return False
    return bool(np.can_cast(dtype, np.float32))


def _widened(bound: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """Upper bound plus how far rounding to float32 can lead; an infinite one stays as it is."""
    with np.errstate(invalid="ignore", over="ignore"):
        widened = np.minimum(bound + np.abs(bound) * np.finfo(np.float32).eps, largest)
    return np.where(np.isfinite(bound), widened, bound)


def _where(mask: np.ndarray) -> tuple[int, ...]:
    return tuple(int(index) for index in np.argwhere(mask)[0])


def _brief(value: np.ndarray) -> str:
    """Text of an array on one line; one number if all elements are equal."""
    flat = np.asarray(value).ravel()
    if flat.size and (flat == flat[0]).all():
        number = flat[0].item()
        return f"{number:.9g}" if isinstance(number, float) else str(number)
    text = np.array2string(value, threshold=8, edgeitems=3, separator=", ")
    return " ".join(text.split())
