"""Transformer: self-attention, residual blocks, and a scan over equal layers."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from embodied.jax import nj
from embodied.jax.layers.functions import Activation, act, require_floating
from embodied.jax.layers.layer import Layer, WithLinear
from embodied.jax.layers.linear import Linear
from embodied.jax.layers.norm import Norm


class Transformer(WithLinear):
    """Residual blocks of attention and feed-forward layers, and a norm at the end.

    Parameters: `layer{i}/norm1, mha, norm2, ff1, ff2` (and `ff3` if gated), `outnorm`.

    Attributes:
      units: Width D of the residual stream.
      layers: Number of blocks.
      heads: Number of attention heads.
      kv_heads: Number of key and value heads, see `Attention`.
      ffup: Width of the feed-forward layers in multiples of D. Gated ones take two thirds of
        it, rounded down to a multiple of 32 but at least D, to have as many parameters.
      act: Activation of the feed-forward layers.
      norm: Kind of norm.
      stats: Statistics of the norms, see `Norm`.
      glu: Whether the feed-forward layers are gated: `ff3(act(ff1(x)) * ff2(x))`.
      rope: Whether attention rotates queries and keys by their positions.
      qknorm: Kind of norm on queries and keys.
      outscale: Factor on the initial kernels of the layers that add to the residual stream.
    """

    units: int = 1024
    layers: int = 12
    heads: int = 8
    kv_heads: int = 0
    ffup: int = 4
    act: str | Activation = "silu"
    norm: str = "rms"
    stats: str = "float32"
    glu: bool = False
    rope: bool = True
    qknorm: str = "none"
    outscale: float = 1.0

    def __call__(
        self, x: jax.Array, mask: jax.Array | None = None, ts: jax.Array | None = None
    ) -> jax.Array:
        """Map x [B, T, units] to the same shape; mask and ts as in `Attention`.

        Raises:
          ValueError: if x has another number of features.
        """
        if x.shape[-1] != self.units:
            raise ValueError(
                f"Transformer '{self.path}' got {x.shape[-1]} features, expected its {self.units} "
                "units; put a Linear in front."
            )
        for i in range(self.layers):
            x = self.sub(f"layer{i}", _Block, self)(x, mask, ts)
        return self.sub("outnorm", Norm, self.norm, stats=self.stats)(x)


class _Block(Layer):
    """One attention and one feed-forward layer, each with a norm in front and a skip around."""

    def __init__(self, options: Transformer) -> None:
        """Take the options from the transformer."""
        self.options = options
        self.linear = options._linear_options

    def __call__(self, x: jax.Array, mask: jax.Array | None, ts: jax.Array | None) -> jax.Array:
        """Map x [B, T, D] to the same shape."""
        options = self.options
        keys = ("heads", "kv_heads", "rope", "qknorm", "stats", "outscale")
        attention = {key: getattr(options, key) for key in keys}
        y = self.sub("norm1", Norm, options.norm, stats=options.stats)(x)
        x = x + self.sub("mha", Attention, **attention, **self.linear)(y, mask, ts)
        y = self.sub("norm2", Norm, options.norm, stats=options.stats)(x)
        return x + self._feed_forward(y)

    def _feed_forward(self, x: jax.Array) -> jax.Array:
        """Two linear layers, or three if gated."""
        size, activation = self.options.units, act(self.options.act)
        last = {**self.linear, "outscale": self.options.outscale}
        hidden = size * self.options.ffup
        if not self.options.glu:
            y = activation(self.sub("ff1", Linear, hidden, **self.linear)(x))
            return self.sub("ff2", Linear, size, **last)(y)
        hidden = max(size, hidden * 2 // 3 // 32 * 32)
        gate = activation(self.sub("ff1", Linear, hidden, **self.linear)(x))
        y = gate * self.sub("ff2", Linear, hidden, **self.linear)(x)
        return self.sub("ff3", Linear, size, **last)(y)


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


class LayerScan(nj.Module):
    """Apply `count` layers of one kind, one after the other, with a scan over their parameters.

    The same as a Python loop over separate layers, but tracing and compilation take the time of
    one. Parameters: those of one layer under `layer/`, each with a leading axis of `count`. A
    layer may read modules outside of it, but none may write state.

    Attributes:
      unroll: Number of layers per step of the compiled loop.
    """

    unroll: int = 1

    def __init__(
        self, make: Callable[..., nj.Module], count: int, *args: Any, **kwargs: Any
    ) -> None:
        """Set the layer as `make(*args, **kwargs)` and the number of layers.

        Raises:
          ValueError: for a count below one.
        """
        if count < 1:
            raise ValueError(f"LayerScan '{self.path}' got {count} layers, expected at least one.")
        self.count = count
        self._make, self._args, self._kwargs = make, args, kwargs

    def __call__(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Map a tree x through all layers, each called as `layer(x, *args, **kwargs)`.

        Raises:
          TypeError: from JAX, if the layer changes the structure, shapes or dtypes of x.
          ValueError: if the stored parameters are for another number of layers.
        """
        layer: Any = self.sub("layer", self._make, *self._args, **self._kwargs)

        def call(x: Any) -> Any:
            return layer(x, *args, **kwargs)

        stacked = self._stacked(layer, call, x)

        def step(x: Any, params: dict[str, jax.Array]) -> tuple[Any, None]:
            context = nj.context()
            seed = None if context.key is None else nj.seed()
            state = {**context.state, **params}
            _, x = nj.pure(call)(state, x, seed=seed, create=False, modify=False)
            return x, None

        return nj.scan(step, x, stacked, length=self.count, unroll=self.unroll)[0]

    def _stacked(self, layer: Any, call: Callable[[Any], Any], x: Any) -> dict[str, jax.Array]:
        """Return the parameters of all layers, created one by one with keys of their own."""
        prefix, state = f"{layer.path}/", nj.context().state
        if nj.creating() and not any(path.startswith(prefix) for path in state):
            self._create(prefix, call, x)
        own = {path: value for path, value in state.items() if path.startswith(prefix)}
        for path, value in own.items():
            if value.shape[:1] != (self.count,):
                raise ValueError(
                    f"LayerScan '{self.path}' has {self.count} layers, but the stored '{path}' has "
                    f"shape {tuple(value.shape)}; pass the number it was created with."
                )
        return own

    def _create(self, prefix: str, call: Callable[[Any], Any], x: Any) -> None:
        """Create what the layers need: stacked under `prefix`, and what lies outside of them."""
        context = nj.context()
        for path, value in nj.init(call)(context.state, x, seed=nj.seed()).items():
            if not path.startswith(prefix) and path not in context.state:
                context.add(path, value)
        outside = dict(context.state)

        def create(seed: jax.Array) -> dict[str, jax.Array]:
            state = nj.init(call)(outside, x, seed=seed)
            return {path: value for path, value in state.items() if path.startswith(prefix)}

        stacked = jax.vmap(create)(jax.random.split(nj.seed(), self.count))
        for path, value in stacked.items():
            context.add(path, value)
