"""Base classes of the layers: named float32 parameters, used in the dtype of the input."""

from typing import Any

import jax

from embodied.jax import nj
from embodied.jax.layers.initializer import Init, init


class Layer(nj.Module):
    """A module whose parameters have a shape that follows from the input.

    Parameters are created and stored in float32 and cast to the compute dtype, which is that of
    the input, when they are used (spec row 1.12).
    """

    def _parameter(
        self, name: str, make: Init, shape: tuple[int, ...], dtype: Any, scale: float = 1.0
    ) -> jax.Array:
        """Return the parameter `name` in `dtype`, created as `scale * make(shape)` at first.

        Raises:
          ValueError: the parameter exists and has another shape.
        """
        value = self.value(name, lambda: init(make)(shape) * scale)
        if value.shape != shape:
            raise ValueError(
                f"The input of {type(self).__name__} '{self.path}' needs a {name} of shape "
                f"{shape}, but the stored one has shape {tuple(value.shape)}; pass the input size "
                "and options that the layer was created with, or give the layer another name."
            )
        return value.astype(dtype)


class WithLinear(Layer):
    """Base of layers that are linear or are made of linear ones.

    Attributes:
      bias: Whether to add a bias; it is kept in front of a norm.
      winit: Initializer of the kernels.
      binit: Initializer of the biases.
    """

    bias: bool = True
    winit: Init = "trunc_normal_in"
    binit: Init = "zeros"

    @property
    def _linear_options(self) -> dict[str, Any]:
        """The options above, to be handed to linear layers inside of this one."""
        return {"bias": self.bias, "winit": self.winit, "binit": self.binit}


class Affine(WithLinear):
    """Base of layers that apply a kernel and add a bias.

    Attributes:
      outscale: Factor on the initial kernel, not on the bias.
    """

    outscale: float = 1.0

    def _kernel(self, shape: tuple[int, ...], dtype: Any) -> jax.Array:
        """Return the kernel in `dtype`."""
        return self._parameter("kernel", self.winit, shape, dtype, self.outscale)

    def _add_bias(self, y: jax.Array, size: int, shape: tuple[int, ...]) -> jax.Array:
        """Add the bias vector of `size` elements, reshaped to `shape`, if there is one."""
        if not self.bias:
            return y
        return y + self._parameter("bias", self.binit, (size,), y.dtype).reshape(shape)
