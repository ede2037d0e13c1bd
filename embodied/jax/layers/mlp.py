"""Multi-layer perceptron."""

import math

import jax

from embodied.jax.layers.functions import Activation, act
from embodied.jax.layers.layer import WithLinear
from embodied.jax.layers.linear import Linear
from embodied.jax.layers.norm import Norm


class MLP(WithLinear):
    """Stack of Linear, Norm, activation.

    Parameters: `linear{i}/kernel|bias`, `norm{i}/scale`.

    Attributes:
      act: Activation.
      norm: Kind of norm.
      stats: Statistics of the norms, see `Norm`.
      dtype: Dtype that the input is cast to; None keeps that of the input.
    """

    act: str | Activation = "silu"
    norm: str = "rms"
    stats: str = "float32"
    dtype: str | None = None

    def __init__(self, layers: int, units: int) -> None:
        """Set the number of layers and their width."""
        self.layers = layers
        self.units = units

    def first(self, x: jax.Array) -> jax.Array:
        """Return what the first linear layer makes of x [..., in], the largest part of the work.

        Where `__call__` is told, it computes the gradient of that layer only. Without layers, it
        is the input.
        """
        x = x if self.dtype is None else x.astype(self.dtype)
        return self._linear(0)(x) if self.layers else x

    def __call__(self, x: jax.Array, first: jax.Array | None = None) -> jax.Array:
        """Map x [..., in] to [..., units]; with no layers, the input comes back.

        Args:
          x: Inputs.
          first: The output of `first` for them, if it is known already.
        """
        batch = x.shape[:-1]
        x = x if self.dtype is None else x.astype(self.dtype)
        x = x.reshape((math.prod(batch), x.shape[-1]))
        for i in range(self.layers):
            x = self._linear(i)(x, None if i else first)
            x = self.sub(f"norm{i}", Norm, self.norm, stats=self.stats)(x)
            x = act(self.act)(x)
        return x.reshape((*batch, x.shape[-1]))

    def _linear(self, index: int) -> Linear:
        return self.sub(f"linear{index}", Linear, self.units, **self._linear_options)
