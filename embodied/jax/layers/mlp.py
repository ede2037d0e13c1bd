"""Multi-layer perceptron."""

import math

import jax

from embodied.jax.layers.functions import Activation, act
from embodied.jax.layers.layer import WithLinear
from embodied.jax.layers.linear import Linear
from embodied.jax.layers.norm import Norm


class MLP(WithLinear):
    """Stack of Linear, Norm, activation, spec rows 1.3 and 1.4.

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

    def __call__(self, x: jax.Array) -> jax.Array:
        """Map x [..., in] to [..., units]; with no layers, the input comes back."""
        batch = x.shape[:-1]
        x = x if self.dtype is None else x.astype(self.dtype)
        x = x.reshape((math.prod(batch), x.shape[-1]))
        for i in range(self.layers):
            x = self.sub(f"linear{i}", Linear, self.units, **self._linear_options)(x)
            x = self.sub(f"norm{i}", Norm, self.norm, stats=self.stats)(x)
            x = act(self.act)(x)
        return x.reshape((*batch, x.shape[-1]))
