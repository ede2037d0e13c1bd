"""Transformer with norms in front of its layers."""

import jax

from embodied.jax.layers.attention import Attention
from embodied.jax.layers.functions import Activation, act
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
