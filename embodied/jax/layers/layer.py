"""Initial values of parameters, and the base classes of the layers that have them.

Parameters are stored as float32 and used in the dtype of the input.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from embodied.core.suggest import hint
from embodied.jax import nj

Shape = int | tuple[int, ...]

DISTRIBUTIONS = ("trunc_normal", "normal", "uniform", "zeros", "ones")
FANS = ("in", "out", "avg", "none")

# Standard deviation of a unit normal truncated to [-2, 2] is 0.8796; dividing by it restores 1.
_TRUNCATION = 1.1368
_BOUND = 2.0


@dataclasses.dataclass(frozen=True)
class Initializer:
    """Draws parameters with a standard deviation of `scale * sqrt(1 / fan)`.

    Attributes:
      dist: 'trunc_normal' (cut at two sigmas of the underlying normal), 'normal', 'uniform',
        'zeros' or 'ones'. The constants ignore fan and scale.
      fan: Which fan counts: 'in', 'out', their average 'avg', or 'none' for a fan of 1.
      scale: Factor on the standard deviation.
    """

    dist: str = "trunc_normal"
    fan: str = "in"
    scale: float = 1.0

    def __post_init__(self) -> None:
        """Check the names.

        Raises:
          ValueError: for an unknown distribution or fan.
        """
        if self.dist not in DISTRIBUTIONS:
            raise ValueError(
                f"Got the distribution '{self.dist}', expected one of {', '.join(DISTRIBUTIONS)}."
                f"{hint(self.dist, DISTRIBUTIONS)}"
            )
        if self.fan not in FANS:
            raise ValueError(f"Got the fan '{self.fan}', expected one of {', '.join(FANS)}.")

    def __call__(self, shape: Shape, dtype: Any = jnp.float32) -> jax.Array:
        """Draw an array with a key from the module system; see `sample`."""
        constant = self.dist in ("zeros", "ones")
        return self.sample(None if constant else nj.seed(), shape, dtype)

    def sample(self, key: jax.Array | None, shape: Shape, dtype: Any = jnp.float32) -> jax.Array:
        """Draw an array.

        Values are drawn on the host, because compiling a generator for every shape would take
        longer than everything else at the start of a program.

        Args:
          key: JAX random key; the constants need none.
          shape: Shape of the parameter, from which the fans are taken (see `compute_fans`).
          dtype: Of the result; values are always drawn in float32.
        """
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        if self.dist == "zeros":
            return jnp.zeros(shape, dtype)
        if self.dist == "ones":
            return jnp.ones(shape, dtype)
        assert key is not None
        drawn = jax.ShapeDtypeStruct(shape, jnp.float32)
        draw = functools.partial(_draw, self.dist, shape)
        unit: jax.Array = jax.pure_callback(draw, drawn, key, vmap_method="sequential")
        fan_in, fan_out = compute_fans(shape)
        fan = {"in": fan_in, "out": fan_out, "avg": (fan_in + fan_out) / 2, "none": 1}[self.fan]
        return (unit * (self.scale * math.sqrt(1.0 / fan))).astype(dtype)


def _draw(dist: str, shape: tuple[int, ...], key: Any) -> np.ndarray:
    """Draw float32 values with unit standard deviation from a uint32[2] key."""
    rng = np.random.default_rng(np.asarray(key))
    if dist == "uniform":
        limit = math.sqrt(3.0)
        return rng.uniform(-limit, limit, shape).astype(np.float32)
    values = rng.standard_normal(shape, np.float32)
    if dist == "normal":
        return values
    while (outside := np.abs(values) > _BOUND).any():
        values[outside] = rng.standard_normal(int(outside.sum()), np.float32)
    return np.float32(_TRUNCATION) * values


Init = str | Initializer | Callable[..., jax.Array]


def init(name: Init) -> Callable[..., jax.Array]:
    """Parse the name of an initializer.

    Args:
      name: A distribution, optionally followed by a fan, such as 'trunc_normal_in' or 'zeros'.
        Without a fan it is 'in'. A function `(shape, dtype) -> array` is returned as it is.

    Raises:
      ValueError: for an unknown name.
    """
    if callable(name):
        return name
    dist, _, fan = name.rpartition("_")
    if fan in FANS:
        return Initializer(dist, fan)
    return Initializer(name)


def compute_fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """Inputs and outputs per unit, by which initial values are scaled.

    Leading axes beyond the last two count as a receptive field, those of a convolution kernel
    `HWIO` as well as the block axis of a block-diagonal kernel `(g, I/g, U/g)`, whose fan-in is
    therefore the full width I.

    Returns:
      The pair (fan_in, fan_out), each at least 1.
    """
    if len(shape) == 0:
        fans = (1, 1)
    elif len(shape) == 1:
        fans = (1, shape[0])
    else:
        field = math.prod(shape[:-2])
        fans = (shape[-2] * field, shape[-1] * field)
    return max(1, fans[0]), max(1, fans[1])


class Layer(nj.Module):
    """A module whose parameters have a shape that follows from the input.

    Parameters are created and stored in float32 and cast to the compute dtype, which is that of
    the input, when they are used.
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
