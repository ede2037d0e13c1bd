"""Learned vectors for integer inputs."""

import math

import jax
import jax.numpy as jnp

from embodied.jax.layers.initializer import Init
from embodied.jax.layers.layer import Layer


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
