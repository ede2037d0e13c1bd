"""A model that acts at random and has nothing to learn, as a baseline."""

from collections.abc import Mapping
from typing import Any

import jax

from embodied.core.config import Config
from embodied.core.space import Space
from embodied.jax import nj
from embodied.jax.model import Arrays, Carry, Model
from embodied.jax.pure_env import has_bounds


class RandomModel(Model):
    """Draws every action uniformly; continuous ones without bounds from a normal distribution."""

    def __init__(
        self,
        obs_space: Mapping[str, Space],
        act_space: Mapping[str, Space],
        config: Config,
        dtype: str = "float32",
    ) -> None:
        """Take the spaces of the actions; the rest does not matter."""
        self._act_space = dict(act_space)

    def init_policy(self, batch_size: int) -> Carry:
        """Return an empty carry."""
        return {}

    def init_train(self, batch_size: int) -> Carry:
        """Return an empty carry."""
        return {}

    def policy(
        self, carry: Carry, obs: Arrays, deterministic: bool = False
    ) -> tuple[Carry, Arrays, Arrays]:
        """Draw actions for N environments."""
        size = len(obs["is_first"])
        actions = {key: _draw(space, size) for key, space in self._act_space.items()}
        return carry, actions, {}

    def train(self, carry: Carry, data: Arrays) -> tuple[Carry, dict[str, Any], Arrays]:
        """Learn nothing."""
        return carry, {}, {}


def _draw(space: Space, size: int) -> jax.Array:
    shape = (size, *space.shape)
    if space.discrete:
        return jax.random.randint(nj.seed(), shape, space.low, space.high, space.dtype)
    if has_bounds(space):
        return jax.random.uniform(nj.seed(), shape, space.dtype, space.low, space.high)
    return jax.random.normal(nj.seed(), shape, space.dtype)
