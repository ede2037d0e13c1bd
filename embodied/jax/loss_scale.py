"""Dynamic loss scaling for compute in float16."""

import jax
import jax.numpy as jnp
from jax import Array

from embodied.jax import nj

INITIAL = 1e4
SMALLEST = 1e-4
LARGEST = 1e5
PATIENCE = 1000


class LossScale(nj.Module):
    """The factor that keeps float16 gradients in range (spec row 4.9).

    It doubles after a thousand finite steps in a row and is halved by every other step, which
    has to be skipped. State: ``grad_scale/value`` and ``good_steps/value`` below `owner`.
    """

    def __init__(self, owner: str) -> None:
        """Set the path that the state is stored below."""
        with nj.scope(owner, absolute=True):
            self._scale = nj.Variable(lambda: jnp.float32(INITIAL), name="grad_scale")
            self._good = nj.Variable(jnp.zeros, (), jnp.int32, name="good_steps")

    def read(self) -> Array:
        """Return the factor to multiply the loss with, float32 scalar."""
        return self._scale.read()

    def update(self, grads: dict[str, Array]) -> tuple[Array, dict[str, Array]]:
        """Adapt the factor to the gradients.

        Returns:
          Whether all gradients are finite, and metrics.
        """
        finite = jnp.stack([jnp.isfinite(grad).all() for grad in jax.tree.leaves(grads)]).all()
        good = jnp.where(finite, self._good.read() + 1, 0)
        grow = good >= PATIENCE
        factor = jnp.where(finite, jnp.where(grow, 2.0, 1.0), 0.5)
        self._good.write(jnp.where(grow, 0, good))
        scale = self._scale.write(jnp.clip(self._scale.read() * factor, SMALLEST, LARGEST))
        return finite, {"grad_scale": scale, "grad_overflow": 1.0 - finite.astype(jnp.float32)}
