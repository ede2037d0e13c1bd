"""Environments that step many instances at once, such as those that compute them as one array."""

import functools
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs
from embodied.core.space import Space


class BatchedEnv(Env):
    """N instances behind the interface of one: every array has a leading dimension N.

    `obs_space` and `act_space` are those of a single instance. The driver steps it without
    processes. What wrappers do to single values they do to the batch alike, as long as it works
    element by element.
    """

    @property
    @abstractmethod
    def batch_size(self) -> int:
        """Number of instances N."""

    @abstractmethod
    def step(self, action: Mapping[str, Any]) -> Obs:
        """Step all instances and reset those for which it is due.

        Args:
            action: Arrays [N, ...] for every key of `act_space`. Where `reset` is set, the others
                are ignored.

        Returns:
            Arrays [N, ...] for every key of `obs_space`, which are not written to again.
        """


class FirstOfBatch(Env):
    """A batch with a single instance, used like any other environment."""

    def __init__(self, env: Env) -> None:
        """Adapt a batch.

        Args:
            env: A `BatchedEnv` with N = 1, or a wrapper around one.
        """
        self._env = env

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of what `step` returns."""
        return self._env.obs_space

    @property
    def act_space(self) -> dict[str, Space]:
        """Spaces of what `step` takes."""
        return self._env.act_space

    @property
    def notes(self) -> list[str]:
        """What an adapter says of how it translates observations, in sentences."""
        return list(getattr(self._env, "notes", ()))

    @property
    def pure(self) -> Any:
        """The environment in JAX behind the batch, or None."""
        return getattr(self._env, "pure", None)

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Step the only instance."""
        obs = self._env.step({key: np.asarray(value)[None] for key, value in action.items()})
        return {key: value[0] for key, value in obs.items()}

    def close(self) -> None:
        """Close the batch."""
        self._env.close()


def env_constructors(
    make_env: Callable[[int], Env], envs: int
) -> Sequence[Callable[[], Env]] | Callable[[], Env]:
    """What the driver takes: one constructor per environment, or one of all of them.

    Args:
        make_env: Makes the environment of an index. If its attribute `make_batch` is not None,
            that makes a `BatchedEnv` from the number of instances.
        envs: Number of environments.
    """
    make_batch = getattr(make_env, "make_batch", None)
    if make_batch is not None:
        return functools.partial(make_batch, envs)
    return [functools.partial(make_env, index) for index in range(envs)]
