"""What the driver needs of the environments it steps together, and the simplest way of doing it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, State
from embodied.core.space import Space
from embodied.core.stepping.checked_env import CheckedEnv, WorkerError

# Observation, log and action spaces of one environment.
Spaces = tuple[dict[str, Space], dict[str, Space], dict[str, Space]]


class EnvGroup(ABC):
    """N environments with the same spaces, stepped in lockstep.

    Attributes:
        obs_space: Observation spaces of every environment, without `log/` keys.
        log_space: `log/` keys that at least one environment declares.
        act_space: Action spaces of every environment, `reset` included.
    """

    obs_space: dict[str, Space]
    log_space: dict[str, Space]
    act_space: dict[str, Space]

    @abstractmethod
    def __len__(self) -> int:
        """Number of environments."""

    @abstractmethod
    def step(
        self, actions: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
        """Step all environments.

        Args:
            actions: Arrays [N, ...] in the spaces' dtypes for every key of `act_space`.

        Returns:
            Fresh contiguous arrays [N, ...] for every key of `obs_space`, and for each environment
            the `log/` values that it sent.

        Raises:
            WorkerError: If an environment fails; the group is closed then.
        """

    @abstractmethod
    def close(self) -> None:
        """Close all environments; always returns, and may be called twice."""

    def save(self) -> State | None:
        """Return the states of all environments, None if they cannot be saved or are in a step."""
        return None

    def load(self, state: State) -> None:
        """Continue where `save` was called on as many environments."""
        raise NotImplementedError(f"{type(self).__name__} has save, expected load as well.")

    def _set_spaces(self, spaces: Sequence[Spaces]) -> None:
        """Take over the spaces of all environments, raising if they differ."""
        self.obs_space, _, self.act_space = spaces[0]
        self.log_space = {key: space for _, log, _ in spaces for key, space in log.items()}
        for index, (obs_space, _, act_space) in enumerate(spaces):
            _check_same(index, self.obs_space, obs_space)
            _check_same(index, self.act_space, act_space)


def _check_same(index: int, expected: dict[str, Space], actual: dict[str, Space]) -> None:
    for key in [*expected, *actual]:
        if expected.get(key) != actual.get(key):
            spaces = f"expected {expected.get(key)} as in worker 0, got {actual.get(key)}"
            raise WorkerError(
                index, 0, f"its spaces differ from the others: key {key!r}: {spaces}."
            )


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
