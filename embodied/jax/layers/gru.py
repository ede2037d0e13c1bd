"""Gated recurrent unit."""

import jax
import jax.numpy as jnp

from embodied.jax import nj
from embodied.jax.layers.functions import mask
from embodied.jax.layers.layer import WithLinear
from embodied.jax.layers.linear import Linear
from embodied.jax.layers.norm import Norm


class GRU(WithLinear):
    """Recurrent layer with a norm on its input and a reset gate on the whole candidate.

    With `[reset, cand, update] = Linear(norm([carry, input]))`:

        update = sigmoid(update + update_bias)
        carry' = update * tanh(sigmoid(reset) * cand) + (1 - update) * carry

    Parameters: `norm/scale` over carry and input features, `linear/kernel|bias`.

    Attributes:
      norm: Kind of norm.
      stats: Statistics of the norm, see `Norm`.
      outscale: Factor on the initial kernel.
      update_bias: Added to the update gate, so that a new layer keeps most of its carry.
    """

    norm: str = "rms"
    stats: str = "float32"
    outscale: float = 1.0
    update_bias: float = -1.0

    def __init__(self, units: int) -> None:
        """Set the width of the carry."""
        self.units = units

    def initial(self, batch_size: int, dtype: str = "float32") -> jax.Array:
        """Return a carry of zeros [B, units]."""
        return jnp.zeros((batch_size, self.units), dtype)

    def __call__(
        self, carry: jax.Array, inputs: jax.Array, resets: jax.Array, single: bool = False
    ) -> tuple[jax.Array, jax.Array]:
        """Run over a sequence, or one step of it.

        Args:
          carry: [B, units].
          inputs: [B, T, in], or [B, in] for a single step.
          resets: Booleans [B, T], or [B]; the carry is zeroed before the steps where they hold.
          single: Whether to make one step.

        Returns:
          The last carry [B, units] and the outputs [B, T, units], or [B, units].

        Raises:
          ValueError: if the shapes do not fit each other.
        """
        batch = inputs.shape[: 1 if single else 2]
        if resets.shape != batch or carry.shape != (batch[0], self.units):
            raise ValueError(
                f"GRU '{self.path}' got carry {carry.shape}, inputs {inputs.shape} and resets "
                f"{resets.shape}, expected {(batch[0], self.units)}, {(*batch, 'in')} and {batch}."
            )
        if single:
            return self._step(carry, (inputs, resets))
        return nj.scan(self._step, carry, (inputs, resets), axis=1)

    def _step(
        self, carry: jax.Array, step: tuple[jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        """Advance the carry by one step; it is the output as well."""
        inputs, resets = step
        carry = mask(carry, ~resets)
        x = jnp.concatenate([carry, inputs], -1)
        x = self.sub("norm", Norm, self.norm, stats=self.stats)(x)
        options = {**self._linear_options, "outscale": self.outscale}
        x = self.sub("linear", Linear, 3 * self.units, **options)(x)
        reset, cand, update = jnp.split(x, 3, -1)
        update = jax.nn.sigmoid(update + self.update_bias)
        cand = jnp.tanh(jax.nn.sigmoid(reset) * cand)
        carry = update * cand + (1 - update) * carry
        return carry, carry
