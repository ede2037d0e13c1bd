"""Normalization over features."""

from typing import Any

import jax
import jax.numpy as jnp

from embodied.jax.layers.functions import require_floating
from embodied.jax.layers.layer import Layer

IMPLS = ("rms", "layer", "none")
STATISTICS = ("float32", "compute")


class Norm(Layer):
    """Root-mean-square or layer normalization.

    Parameters, over the normalized axes: scale, initially ones, and for 'layer' shift, initially
    zeros.

    Attributes:
      axis: Axes that are normalized.
      eps: Added to the mean square or variance.
      scale: Whether the scale is learned.
      shift: Whether the shift is learned ('layer' only).
      stats: Dtype of the whole computation: 'float32', or 'compute' for that of the input, as
        the paper-era code did (float16 is still computed in float32).
    """

    axis: tuple[int, ...] = (-1,)
    eps: float = 1e-4
    scale: bool = True
    shift: bool = True
    stats: str = "float32"

    def __init__(self, impl: str) -> None:
        """Choose 'rms', 'layer' or 'none'.

        Raises:
          ValueError: for another name, or another kind of statistics.
        """
        if impl not in IMPLS:
            raise ValueError(
                f"Norm '{self.path}' got the kind '{impl}', expected one of {', '.join(IMPLS)}."
            )
        if self.stats not in STATISTICS:
            raise ValueError(
                f"Norm '{self.path}' got stats '{self.stats}', expected one of "
                f"{', '.join(STATISTICS)}."
            )
        self.impl = impl

    def __call__(self, x: jax.Array) -> jax.Array:
        """Normalize x [..., *features], keeping shape and dtype.

        Raises:
          TypeError: if x is not floating point.
        """
        axis = tuple(sorted(a % x.ndim for a in self.axis))
        sizes = tuple(x.shape[a] for a in axis)
        spread = tuple(size if a in axis else 1 for a, size in enumerate(x.shape))
        return self._normalize(x, axis, sizes, spread)

    def block_major(self, x: jax.Array) -> jax.Array:
        """Normalize x [g, N, i] over all g * i features of each row, keeping the block layout.

        The parameters have shape (g * i,), as if the features were one axis.
        """
        blocks, _, width = x.shape
        return self._normalize(x, (0, 2), (blocks * width,), (blocks, 1, width))

    def _normalize(
        self,
        x: jax.Array,
        axis: tuple[int, ...],
        sizes: tuple[int, ...],
        spread: tuple[int, ...],
    ) -> jax.Array:
        """Normalize over `axis` with parameters of shape `sizes` that broadcast as `spread`."""
        if self.impl == "none":
            return x
        require_floating(x, f"Norm '{self.path}'")
        low = self.stats == "compute" and x.dtype != jnp.float16
        dtype = x.dtype if low else jnp.promote_types(x.dtype, jnp.float32)
        y = standardize(x.astype(dtype), axis, self.eps, center=self.impl == "layer")
        if self.scale:
            y = y * self._parameter("scale", "ones", sizes, dtype).reshape(spread)
        if self.shift and self.impl == "layer":
            y = y + self._parameter("shift", "zeros", sizes, dtype).reshape(spread)
        return y.astype(x.dtype)


def standardize(x: jax.Array, axis: Any, eps: float = 1e-4, center: bool = False) -> jax.Array:
    """Divide x by the square root of its mean square plus `eps` over `axis`.

    Args:
      x: Floating-point array, computed in its own dtype.
      axis: Axis or axes of the statistics.
      eps: Stabilizer.
      center: Whether to subtract the mean first, which makes it layer normalization.
    """
    if center:
        x = x - jnp.mean(x, axis, keepdims=True)
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis, keepdims=True) + eps)
