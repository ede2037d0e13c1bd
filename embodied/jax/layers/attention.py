"""Multi-head self-attention."""

import math

import jax
import jax.numpy as jnp

from embodied.jax.layers.functions import require_floating
from embodied.jax.layers.layer import WithLinear
from embodied.jax.layers.linear import Linear
from embodied.jax.layers.norm import Norm


class Attention(WithLinear):
    """Self-attention with rotary positions, grouped keys and values, and query-key norm.

    Parameters: `qkv` (or `q`, `k`, `v` with grouped heads) and `proj`, each kernel and bias, and
    `normq/scale`, `normk/scale` per head feature with query-key norm.

    Attributes:
      heads: Number of query heads.
      kv_heads: Number of key and value heads, each shared by `heads / kv_heads` neighbouring
        query heads; 0 for as many as there are query heads.
      rope: Whether to rotate queries and keys by their positions.
      qknorm: Kind of norm on queries and keys.
      stats: Statistics of the norms, see `Norm`.
      outscale: Factor on the initial kernel of the output projection.
    """

    heads: int = 8
    kv_heads: int = 0
    rope: bool = True
    qknorm: str = "none"
    stats: str = "float32"
    outscale: float = 1.0

    def __call__(
        self, x: jax.Array, mask: jax.Array | None = None, ts: jax.Array | None = None
    ) -> jax.Array:
        """Attend over the T positions of x.

        Args:
          x: [B, T, D] with D a multiple of the heads.
          mask: Booleans [B, T, T], True where a query (first) may see a key (second); all by
            default.
          ts: Integer positions [B, T] for the rotation; 0 to T - 1 by default.

        Returns:
          [B, T, D] in the dtype of x.

        Raises:
          TypeError: if x is not floating point.
          ValueError: if the shapes or the numbers of heads do not fit.
        """
        self._check(x, mask, ts)
        batch, length, size = x.shape
        query, key, value = self._project(x)
        query = self.sub("normq", Norm, self.qknorm, stats=self.stats)(query)
        key = self.sub("normk", Norm, self.qknorm, stats=self.stats)(key)
        if self.rope:
            ts = jnp.arange(length)[None] if ts is None else ts
            query, key = rotate(query, ts), rotate(key, ts)
        y = attend(query, key, value, mask).reshape((batch, length, size))
        return self._linear("proj", size, self.outscale)(y)

    def _project(self, x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Compute queries [B, T, heads, d] and keys and values [B, T, kv_heads, d]."""
        batch, length, size = x.shape
        width = size // self.heads
        if not self.kv_heads:
            y = self._linear("qkv", 3 * size)(x).reshape((batch, length, 3, self.heads, width))
            return y[:, :, 0], y[:, :, 1], y[:, :, 2]
        counts = {"q": self.heads, "k": self.kv_heads, "v": self.kv_heads}
        query, key, value = (
            self._linear(name, count * width)(x).reshape((batch, length, count, width))
            for name, count in counts.items()
        )
        return query, key, value

    def _linear(self, name: str, units: int, outscale: float = 1.0) -> Linear:
        """Return the linear layer `name`."""
        return self.sub(name, Linear, units, outscale=outscale, **self._linear_options)

    def _check(self, x: jax.Array, mask: jax.Array | None, ts: jax.Array | None) -> None:
        """Reject inputs of wrong types and shapes."""
        label = f"Attention '{self.path}'"
        require_floating(x, label)
        if x.ndim != 3 or x.shape[-1] % self.heads:
            raise ValueError(
                f"{label} got an input of shape {x.shape}, expected [B, T, D] with D a multiple "
                f"of its {self.heads} heads."
            )
        if self.kv_heads and self.heads % self.kv_heads:
            raise ValueError(
                f"{label} got {self.kv_heads} key heads, expected a divisor of {self.heads} heads."
            )
        batch, length, _ = x.shape
        if mask is not None and (mask.dtype != bool or mask.shape != (batch, length, length)):
            raise ValueError(
                f"{label} got a {mask.dtype} mask of shape {mask.shape}, expected booleans of "
                f"shape {(batch, length, length)}."
            )
        if ts is not None and ts.shape != (batch, length):
            raise ValueError(
                f"{label} got positions of shape {ts.shape}, expected {(batch, length)}."
            )


def attend(
    query: jax.Array, key: jax.Array, value: jax.Array, mask: jax.Array | None = None
) -> jax.Array:
    """Scaled dot-product attention.

    Args:
      query: [B, T, h, d].
      key: [B, S, k, d] where k divides h; neighbouring query heads share a key head.
      value: [B, S, k, d].
      mask: Booleans [B, T, S], True where a query may see a key. A query that sees none takes
        the mean of all values.

    Returns:
      [B, T, h, d] in the dtype of the values; the softmax is computed in float32.
    """
    batch, length, heads, width = query.shape
    shared = key.shape[2]
    query = query.reshape((batch, length, shared, heads // shared, width))
    logits = jnp.einsum("btkgd,bskd->bkgts", query, key).astype(jnp.float32)
    logits = logits / math.sqrt(width)
    if mask is not None:
        logits = jnp.where(mask[:, None, None], logits, -1e30)
    weights = jax.nn.softmax(logits, -1).astype(value.dtype)
    y = jnp.einsum("bkgts,bskd->btkgd", weights, value)
    return y.reshape((batch, length, heads, width))


def rotate(x: jax.Array, ts: jax.Array, wavelength: float = 4096.0) -> jax.Array:
    """Rotary position encoding.

    Feature j of the first half and feature j of the second half of each head form a vector that
    is turned by `t / wavelength ** (j / (d / 2))` radians.

    Args:
      x: Heads [B, T, h, d] with even d.
      ts: Positions [B, T] or [1, T].
      wavelength: Range of the frequencies.

    Raises:
      ValueError: if d is odd.
    """
    if x.shape[-1] % 2:
        raise ValueError(
            f"Rotary positions got {x.shape[-1]} features per head, expected an even number."
        )
    half = x.shape[-1] // 2
    frequency = wavelength ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angle = ts.astype(jnp.float32)[:, :, None, None] * frequency
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    first, second = jnp.split(x.astype(jnp.float32), 2, -1)
    y = jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)
    return y.astype(x.dtype)
