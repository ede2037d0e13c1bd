"""Pure environments in the host loop: for evaluation, and to compare the two loops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from embodied.core.batched_env import BatchedEnv
from embodied.core.interfaces import Obs
from embodied.core.space import Space
from embodied.envs.errors import EnvError
from embodied.jax.pure_env import PureEnv, advance, initial, whole_obs_space

PICTURE = "log/image"


class FromPure(BatchedEnv):
    """N copies of a pure environment, which compute together on the CPU.

    They step in the process of the loop, as each process more would load JAX once more.

    Attributes:
      pure: The environment.
    """

    def __init__(
        self, env: PureEnv, num_envs: int = 1, seed: int = 0, log_image_every: int = 0
    ) -> None:
        """Adapt an environment.

        Args:
          env: The environment.
          num_envs: Number of copies N.
          seed: Seed of their random keys.
          log_image_every: In every how many-th episode of the first copy pictures are logged as
            `log/image`; 0 is never.

        Raises:
          EnvError: It cannot be drawn, but is asked to.
        """
        if log_image_every and not hasattr(env, "draw"):
            raise EnvError(
                f"Got log_image_every={log_image_every} for {type(env).__name__}, which has no "
                "draw(state), expected 0."
            )
        self.pure, self._count = env, num_envs
        self._log_every, self._episodes = log_image_every, 0
        self._device = jax.devices("cpu")[0]
        self._calls = 0
        with jax.default_device(self._device):
            self._key = jax.random.PRNGKey(seed)
            self._state = jax.jit(lambda key: initial(env, num_envs, key))(self._key)
            self._picture = self._draw() if log_image_every else None
        self._advance = jax.jit(lambda *args: advance(env, *args))

    @property
    def batch_size(self) -> int:
        """Number of copies N."""
        return self._count

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of what `step` returns for one copy."""
        spaces = whole_obs_space(self.pure)
        if self._picture is not None:
            spaces[PICTURE] = Space(np.uint8, self._picture.shape[1:])
        return spaces

    @property
    def act_space(self) -> dict[str, Space]:
        """Spaces of what `step` takes for one copy."""
        return {**self.pure.act_space, "reset": Space(bool)}

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Act, and start episodes where it is due."""
        given = {key: np.asarray(action[key], x.dtype) for key, x in self.act_space.items()}
        reset = given.pop("reset")
        calls = np.int32(self._calls)
        with jax.default_device(self._device):
            self._state, obs = self._advance(self._state, given, reset, self._key, calls)
            self._calls += 1
            self._episodes += int(reset[0])
            result = {key: np.asarray(value) for key, value in obs.items()}
            if self._log_every and self._episodes % self._log_every == 1 % self._log_every:
                result[PICTURE] = self._draw()
        return result

    def _draw(self) -> np.ndarray:
        """Draw the first copy; the others stay black."""
        first = jax.tree.map(lambda x: x[0], self._state)
        picture = np.asarray(self.pure.draw(first))  # type: ignore[attr-defined]
        pictures = np.zeros((self._count, *picture.shape), np.uint8)
        pictures[0] = picture
        return pictures
