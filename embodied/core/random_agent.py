"""An agent that acts at random and learns nothing."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.core.interfaces import Agent, Batch, Carry, Stream
from embodied.core.space import Space


class RandomAgent(Agent):
    """Samples the action space; stands in for a learning agent in baselines and tests."""

    def __init__(
        self,
        obs_space: Mapping[str, Space],
        act_space: Mapping[str, Space],
        seed: int = 0,
        ext_space: Mapping[str, Space] | None = None,
    ) -> None:
        """Create the agent.

        Args:
            obs_space: Spaces of the observations.
            act_space: Spaces of the actions; `reset`, if there, is the driver's.
            seed: Seed of the actions.
            ext_space: What an agent that will learn from the steps wants stored with them; it is
                stored as zeros. What sampling adds (`consec`, `stepid`) is left out.
        """
        self.obs_space = dict(obs_space)
        self.act_space = {key: x for key, x in act_space.items() if key != "reset"}
        self._ext_space = {
            key: space
            for key, space in (ext_space or {}).items()
            if key not in ("consec", "stepid")
        }
        self._rng = np.random.default_rng(seed)

    @property
    def ext_space(self) -> dict[str, Space]:
        """What is stored besides observations and actions, by default nothing."""
        return dict(self._ext_space)

    def init_policy(self, batch_size: int) -> Carry:
        """Empty carry."""
        return ()

    def init_train(self, batch_size: int) -> Carry:
        """Empty carry."""
        return ()

    def init_report(self, batch_size: int) -> Carry:
        """Empty carry."""
        return ()

    def policy(self, carry: Carry, obs: Batch, mode: str = "train") -> tuple[Carry, Batch, Batch]:
        """Sample actions [N, ...], with N taken from `is_first`; outputs are zeros."""
        size = len(obs["is_first"])
        actions = {
            key: np.stack([space.sample(self._rng) for _ in range(size)])
            for key, space in self.act_space.items()
        }
        zeros = {k: np.zeros((size, *x.shape), x.dtype) for k, x in self._ext_space.items()}
        return carry, actions, zeros

    def train(self, carry: Carry, data: Batch) -> tuple[Carry, dict[str, Any], dict[str, Any]]:
        """Do nothing; no outputs and no metrics."""
        return carry, {}, {}

    def report(self, carry: Carry, data: Batch) -> tuple[Carry, dict[str, Any]]:
        """Do nothing; no metrics."""
        return carry, {}

    def stream(self, source: Stream) -> Stream:
        """Pass the source through."""
        return source

    def save(self) -> dict[str, Any]:
        """Return the state of the random generator."""
        return {"rng": self._rng.bit_generator.state}

    def load(self, data: dict[str, Any], regex: str | None = None) -> None:
        """Restore the random generator; there are no parameters for `regex` to choose from."""
        self._rng.bit_generator.state = data["rng"]
