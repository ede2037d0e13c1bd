"""Distributions of freshly created parameters."""

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
    """Draws parameters with a standard deviation of `scale * sqrt(1 / fan)` (spec row 1.5).

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
        unit = jax.pure_callback(draw, drawn, key, vmap_method="sequential")
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
    """Inputs and outputs per unit, by the convention of spec row 1.5.

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
