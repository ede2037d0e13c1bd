"""Dense and block-diagonal linear layers."""

import math
from typing import Any

import jax
import jax.numpy as jnp

from embodied.jax.layers.functions import recall, require_floating
from embodied.jax.layers.layer import Affine


class Linear(Affine):
    """Dense layer.

    Parameters: kernel (in, prod(units)) and bias (prod(units),).
    """

    def __init__(self, units: int | tuple[int, ...]) -> None:
        """Set the number of output features, or the shape of the output features."""
        self.units = (units,) if isinstance(units, int) else tuple(units)

    def __call__(self, x: jax.Array, known: jax.Array | None = None) -> jax.Array:
        """Map x [..., in] to [..., *units] in the dtype of x.

        Args:
          x: Inputs.
          known: What an earlier call has returned for them, if there was one; only the gradients
            are computed then.

        Raises:
          TypeError: if x is not floating point.
          ValueError: if the number of features is not that of the stored kernel.
        """
        require_floating(x, f"Linear '{self.path}'")
        size = math.prod(self.units)
        # As one matrix: the gradient of a kernel would sum over several axes, for which CPUs copy.
        rows = x.reshape((math.prod(x.shape[:-1]), x.shape[-1]))
        params = [self._kernel((x.shape[-1], size), x.dtype)]
        if self.bias:
            params.append(self._parameter("bias", self.binit, (size,), x.dtype))
        if known is None:
            y = _affine(rows, *params)
        else:
            y = recall(_affine, known.reshape((len(rows), size)), rows, *params)
        return y.reshape((*x.shape[:-1], *self.units))

    def params(self, inputs: int, dtype: Any) -> tuple[jax.Array, jax.Array]:
        """Return kernel [inputs, prod(units)] and bias, for code that cuts the layer in parts."""
        size = math.prod(self.units)
        bias = self._parameter("bias", self.binit, (size,), dtype)
        return self._kernel((inputs, size), dtype), bias


class BlockLinear(Affine):
    """Block-diagonal dense layer: output block k sees input block k only.

    Parameters: kernel (g, in/g, units/g), initialised with a fan-in of the whole input width,
    and bias (units,).
    """

    def __init__(self, units: int, blocks: int) -> None:
        """Set the number of output features and of blocks g.

        Raises:
          ValueError: if the blocks do not divide the units.
        """
        if units % blocks:
            raise ValueError(
                f"BlockLinear '{self.path}' got {units} units, expected a multiple of its "
                f"{blocks} blocks."
            )
        self.units = units
        self.blocks = blocks

    def __call__(self, x: jax.Array) -> jax.Array:
        """Map x [..., in] to [..., units] in the dtype of x.

        Raises:
          TypeError: if x is not floating point.
          ValueError: if the blocks do not divide the input features.
        """
        if x.shape[-1] % self.blocks:
            raise ValueError(
                f"BlockLinear '{self.path}' got {x.shape[-1]} features, expected a multiple of "
                f"its {self.blocks} blocks."
            )
        y = from_block_major(self.block_major(to_block_major(x, self.blocks)))
        return y.reshape((*x.shape[:-1], self.units))

    def params(self, inputs: int, dtype: Any) -> tuple[jax.Array, jax.Array]:
        """Return kernel [g, inputs/g, units/g] and bias, for code that cuts the layer in parts."""
        shape = (self.blocks, inputs // self.blocks, self.units // self.blocks)
        bias = self._parameter("bias", self.binit, (self.units,), dtype)
        return self._kernel(shape, dtype), bias

    def block_major(self, x: jax.Array) -> jax.Array:
        """Map x [g, N, in/g] to [g, N, units/g], for code that stays in the block layout."""
        require_floating(x, f"BlockLinear '{self.path}'")
        width = self.units // self.blocks
        y = block_matmul(x, self._kernel((self.blocks, x.shape[-1], width), x.dtype))
        return self._add_bias(y, self.units, (self.blocks, 1, width))


def _affine(x: jax.Array, kernel: jax.Array, *bias: jax.Array) -> jax.Array:
    return sum(bias, start=x @ kernel)


def block_matmul(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """Multiply each block by its own matrix: x [g, N, i], kernel [g, i, o] -> [g, N, o].

    The block axis leads in all three arrays, so that each block is one contiguous matrix
    product; with the batch in front, CPUs run several times slower.
    """
    return jax.lax.dot_general(x, kernel, (((2,), (1,)), ((0,), (0,))))


def to_block_major(x: jax.Array, blocks: int) -> jax.Array:
    """Lay out features [..., g * i] as blocks [g, N, i] with N the product of the leading dims."""
    return x.reshape((-1, blocks, x.shape[-1] // blocks)).swapaxes(0, 1)


def from_block_major(x: jax.Array) -> jax.Array:
    """Lay out blocks [g, N, i] as features [N, g * i].

    A concatenation instead of a transposition, since compilers for the CPU would fuse the latter
    with what computes `x` and then evaluate that element by element.
    """
    return jnp.concatenate(list(x), -1)
