"""Environments in this process, stepped one after the other."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from embodied.core.checked_env import CheckedEnv
from embodied.core.env_group import EnvGroup
from embodied.core.interfaces import Env, State


class SerialEnvs(EnvGroup):
    """For debugging, tests and environments so fast that messages would cost more than steps."""

    def __init__(self, make_env_fns: Sequence[Callable[[], Env]]) -> None:
        """Construct the environments in order.

        Raises:
            WorkerError: If a constructor fails or spaces differ.
        """
        self._envs: list[CheckedEnv] = []
        try:
            for index, make_env in enumerate(make_env_fns):
                self._envs.append(CheckedEnv(index, make_env))
            self._set_spaces([(x.obs_space, x.log_space, x.act_space) for x in self._envs])
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self._envs)

    def step(
        self, actions: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
        """Step all environments; see `EnvGroup`."""
        if not self._envs:
            raise RuntimeError(
                "Got a step after closing, expected open environments: make new ones."
            )
        try:
            return self._step(actions)
        except BaseException:
            self.close()
            raise

    def save(self) -> State | None:
        """Return the states of all environments; None unless each of them has one."""
        states = [env.save() for env in self._envs]
        return None if not states or None in states else states

    def load(self, state: State) -> None:
        """Continue where `save` was called."""
        for env, part in zip(self._envs, state, strict=True):
            env.load(part)

    def close(self) -> None:
        """Close all environments."""
        while self._envs:
            self._envs.pop().close()

    def _step(
        self, actions: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
        size = len(self._envs)
        # Environments may write to their action, which callers may have kept.
        actions = {key: np.array(value) for key, value in actions.items()}
        batch = {key: np.empty((size, *x.shape), x.dtype) for key, x in self.obs_space.items()}
        logs: list[dict[str, Any]] = []
        for index, env in enumerate(self._envs):
            obs = env.step({key: value[index] for key, value in actions.items()})
            for key, values in batch.items():
                values[index] = obs[key]
            logs.append({key: np.array(obs[key]) for key in env.log_space if key in obs})
        return batch, logs
