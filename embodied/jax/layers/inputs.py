"""Layers that turn raw inputs into activations: dictionaries, and integers.

Missing values, -1 or -inf, add nothing: see `available`.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from embodied.core.space import Space
from embodied.jax.layers.functions import available, identity, mask
from embodied.jax.layers.layer import Init, Layer, WithLinear
from embodied.jax.layers.linear import Linear

Squish = Callable[[jax.Array], jax.Array]
Inputs = Mapping[str, Any]

MAX_CLASSES = 2**16


class DictConcat:
    """Encode the values of a dictionary and concatenate them in the order of the sorted keys.

    Discrete values become one-hot vectors, with as many classes per element as the largest
    element has. Continuous values are squished in float32. A key of which any element of a batch
    element is unavailable (see `available`) is all zeros there.
    """

    def __init__(
        self,
        spaces: Mapping[str, Space],
        fdims: int = 1,
        squish: Squish = identity,
        dtype: str = "float32",
        onehot: bool = True,
    ) -> None:
        """Set the spaces and how they are encoded.

        Args:
          spaces: Space per key.
          fdims: Number of feature dims of the result; each value is reshaped to that many.
          squish: Applied to continuous values.
          dtype: Compute dtype of the result.
          onehot: Whether discrete values become one-hot; otherwise they are treated as continuous
            ones, as the paper-era code did with integer vectors.

        Raises:
          ValueError: if there are no spaces, or one has too many classes for one-hot vectors.
        """
        if not spaces or fdims < 1:
            raise ValueError(f"DictConcat got {len(spaces)} spaces and fdims {fdims}, expected 1+.")
        self.spaces = {key: spaces[key] for key in sorted(spaces)}
        self.fdims = fdims
        self.squish = squish
        self.dtype = jnp.dtype(dtype)
        self.discrete = {key: space.discrete and onehot for key, space in self.spaces.items()}
        self.classes = {
            key: _count_classes(key, self.spaces[key])
            for key, is_d in self.discrete.items()
            if is_d
        }

    def __call__(self, xs: Inputs) -> jax.Array:
        """Encode a dictionary of arrays.

        Args:
          xs: Arrays [..., *shape] for all keys of the spaces; others are ignored.

        Returns:
          [..., F] in the compute dtype, or with `fdims` feature dims of which the last is
          concatenated.

        Raises:
          KeyError: if a key is missing.
          ValueError: if an array does not end in the shape of its space, or batch dims differ.
        """
        parts = []
        for key, x, batch in _inputs(self.spaces, xs):
            x, keep = _clean(x, self.spaces[key], self.discrete[key], len(batch))
            if self.discrete[key]:
                x = jax.nn.one_hot(x, self.classes[key], dtype=self.dtype)
            else:
                x = self.squish(x).astype(self.dtype)
            feature = x.shape[len(batch) :][: self.fdims - 1]
            parts.append(mask(x, keep).reshape((*batch, *feature, -1)))
        return jnp.concatenate(parts, -1)


class DictEmbed(WithLinear):
    """Sum learned embeddings of the values of a dictionary and a learned vector.

    A key of which any element of a batch element is unavailable contributes nothing there.
    Parameters: `init`, and per key `kernel|bias`, or `table` for discrete keys with 'lookup'.

    Attributes:
      impl: 'onehot' puts a Linear on one-hot vectors, 'lookup' sums one Embed per element.
      squish: Applied to continuous values.
      einit: Initializer of the tables and of `init`.
      outscale: Factor on the initial kernels and tables.
      dtype: Compute dtype of the result.
    """

    impl: str = "onehot"
    squish: Squish = identity
    einit: Init = "trunc_normal_out"
    outscale: float = 1.0
    dtype: str = "float32"

    def __init__(self, spaces: Mapping[str, Space], units: int) -> None:
        """Set the spaces and the width of the embedding.

        Raises:
          ValueError: if there are no spaces, or for an unknown `impl`.
        """
        if not spaces or self.impl not in ("onehot", "lookup"):
            raise ValueError(
                f"DictEmbed '{self.path}' got {len(spaces)} spaces and impl '{self.impl}', "
                "expected some spaces and 'onehot' or 'lookup'."
            )
        self.spaces = {key: spaces[key] for key in sorted(spaces)}
        self.units = units
        self.classes = {k: _count_classes(k, s) for k, s in self.spaces.items() if s.discrete}

    def __call__(self, xs: Inputs) -> jax.Array:
        """Encode a dictionary of arrays [..., *shape] as [..., units] in the compute dtype.

        Raises:
          KeyError: if a key is missing.
          ValueError: if an array does not end in the shape of its space, or batch dims differ.
        """
        total = self._parameter("init", self.einit, (self.units,), self.dtype)
        for key, x, batch in _inputs(self.spaces, xs):
            space = self.spaces[key]
            x, keep = _clean(x, space, space.discrete, len(batch))
            total = total + mask(self._embed(key, x, batch), keep)
        return total

    def _embed(self, key: str, x: jax.Array, batch: tuple[int, ...]) -> jax.Array:
        """Map the values of one key [..., *shape] to [..., units]."""
        space = self.spaces[key]
        if space.discrete and self.impl == "lookup":
            args = (self.classes[key], self.units, space.shape)
            options = {"einit": self.einit, "outscale": self.outscale, "dtype": self.dtype}
            return self.sub(key, Embed, *args, combine=True, **options)(x)
        if space.discrete:
            x = jax.nn.one_hot(x, self.classes[key], dtype=self.dtype)
        else:
            x = self.squish(x).astype(self.dtype)
        affine = {**self._linear_options, "outscale": self.outscale}
        return self.sub(key, Linear, self.units, **affine)(x.reshape((*batch, -1)))


class Embed(Layer):
    """Look up one learned vector per integer.

    Every element of the feature shape has a table of its own. Parameters:
    table (*shape, classes, units).

    Attributes:
      einit: Initializer of the table.
      outscale: Factor on the initial table.
      combine: Whether to sum the vectors over the feature shape.
      dtype: Dtype of the result.
    """

    einit: Init = "trunc_normal_out"
    outscale: float = 1.0
    combine: bool = False
    dtype: str = "float32"

    def __init__(self, classes: int, units: int, shape: int | tuple[int, ...] = ()) -> None:
        """Set the number of classes, the vectors' width and the feature shape of the input."""
        self.classes = classes
        self.units = units
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Map integers x [..., *shape] to [..., *shape, units], or [..., units] if combined.

        Values must be in [0, classes); outside, the nearest valid class is taken.

        Raises:
          TypeError: if x is not of an integer dtype.
          ValueError: if x does not end in the feature shape.
        """
        if not jnp.issubdtype(x.dtype, jnp.integer):
            raise TypeError(f"Embed '{self.path}' got a {x.dtype} input, expected integers.")
        split = x.ndim - len(self.shape)
        if split < 0 or x.shape[split:] != self.shape:
            raise ValueError(
                f"Embed '{self.path}' got an input of shape {x.shape}, expected one that ends in "
                f"{self.shape}."
            )
        size = (*self.shape, self.classes, self.units)
        table = self._parameter("table", self.einit, size, self.dtype, self.outscale)
        count = math.prod(self.shape)
        batch = x.shape[:split]
        flat = x.reshape((*batch, count))
        table = table.reshape((count, self.classes, self.units))
        y = table.at[jnp.arange(count), flat].get(mode="clip")
        if self.combine:
            return y.sum(-2)
        return y.reshape((*batch, *self.shape, self.units))


def _count_classes(key: str, space: Space) -> int:
    """Number of classes of the element that has most.

    Raises:
      ValueError: if there are too many.
    """
    classes = int(np.max(space.classes))
    if classes > MAX_CLASSES:
        raise ValueError(
            f"Got {classes} classes for the discrete input '{key}', expected at most "
            f"{MAX_CLASSES}; give its space bounds, or make it a float."
        )
    return classes


def _inputs(
    spaces: Mapping[str, Space], xs: Inputs
) -> Iterator[tuple[str, jax.Array, tuple[int, ...]]]:
    """Go over the keys; yields key, array and batch shape after checking them."""
    first: tuple[int, ...] | None = None
    for key, space in spaces.items():
        if key not in xs:
            raise KeyError(f"Got the inputs {sorted(xs)}, expected '{key}' among them.")
        x = jnp.asarray(xs[key])
        split = x.ndim - len(space.shape)
        batch = x.shape[: max(0, split)]
        first = batch if first is None else first
        if split < 0 or x.shape[split:] != space.shape or batch != first:
            raise ValueError(
                f"Got shape {x.shape} for the input '{key}', expected {(*first, *space.shape)}: "
                "the batch dims of all inputs, then the shape of its space."
            )
        yield key, x, batch


def _clean(x: jax.Array, space: Space, discrete: bool, bdims: int) -> tuple[jax.Array, jax.Array]:
    """Zero unavailable values and bring the others to class ids (int32) or float32.

    Returns:
      The values [..., *shape] and a boolean [...] that is True where they are available.
    """
    if not discrete:
        x = x.astype(jnp.float32)
        keep = available(x, bdims=bdims)
        return mask(x, keep), keep
    # Where -1 is one of the classes, it cannot mark missing values.
    has_negative = bool(np.min(space.low) < 0)
    keep = jnp.ones(x.shape[:bdims], bool) if has_negative else available(x, bdims=bdims)
    ids = x.astype(jnp.int32) - jnp.asarray(space.low, jnp.int32)
    return mask(ids, keep), keep
