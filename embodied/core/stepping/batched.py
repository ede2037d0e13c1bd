"""An environment that steps many instances at once, as the driver sees it."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs
from embodied.core.space import SpaceError, SpacesCheck
from embodied.core.stepping.checked_env import FAILURES, WorkerError, check_declared, explain
from embodied.core.stepping.group import EnvGroup


class BatchedGroup(EnvGroup):
    """One `BatchedEnv` in this process; its instances are the workers 0 to N - 1."""

    def __init__(self, make_env: Callable[[], Env]) -> None:
        """Construct the environment.

        Raises:
            WorkerError: If the constructor fails or its spaces break the contract.
        """
        self._steps = 0
        self._closed = False
        try:
            self._env = make_env()
            self._size = _batch_size(self._env)
            spaces, actions = dict(self._env.obs_space), dict(self._env.act_space)
            check_declared(spaces, actions)
        except FAILURES as error:
            raise WorkerError(0, 0, explain(error)) from error
        own = {key: space for key, space in spaces.items() if not key.startswith("log/")}
        log = {key: space for key, space in spaces.items() if key.startswith("log/")}
        self._set_spaces([(own, log, actions)])
        self._check = SpacesCheck(
            {k: x.stack(self._size) for k, x in spaces.items()}, "observation"
        )
        self._check_single = SpacesCheck(spaces, "observation")

    def __len__(self) -> int:
        return self._size

    def step(
        self, actions: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
        """Step all instances; see `EnvGroup`."""
        if self._closed:
            raise RuntimeError(
                "Got a step after closing, expected open environments: make new ones."
            )
        self._steps += 1
        # Environments may write to their action, which callers may have kept.
        actions = {key: np.array(value) for key, value in actions.items()}
        reset, obs = actions["reset"].copy(), None
        try:
            obs = self._env.step(actions)
            self._check(obs)
            self._check_resets(reset, obs)
        except FAILURES as error:
            self.close()
            blamed = self._blame(obs) if isinstance(error, SpaceError) else None
            worker, error = blamed or (0, error)
            raise WorkerError(worker, self._steps, explain(error)) from error
        except BaseException:
            self.close()
            raise
        batch = {key: np.array(obs[key]) for key in self.obs_space}
        present = {key: np.array(obs[key]) for key in self.log_space if key in obs}
        logs = [{k: values[index] for k, values in present.items()} for index in range(self._size)]
        return batch, logs

    def close(self) -> None:
        """Close the environment."""
        if not self._closed:
            self._closed = True
            self._env.close()

    def _check_resets(self, reset: np.ndarray, obs: Obs) -> None:
        ignored = reset & ~obs["is_first"]
        if ignored.any():
            index = int(np.argmax(ignored))
            message = f"key 'is_first': expected True after a reset, got False at index {index}"
            raise SpaceError(f"Invalid observation: {message}.")

    def _blame(self, obs: Obs | None) -> tuple[int, SpaceError] | None:
        """Find the first instance with an invalid observation; None if it is not a single one's."""
        if not isinstance(obs, Mapping) or any(len(np.shape(x)) == 0 for x in obs.values()):
            return None
        if any(len(x) != self._size for x in obs.values()):
            return None
        for index in range(self._size):
            try:
                self._check_single({key: value[index] for key, value in obs.items()})
            except SpaceError as error:
                return index, error
        return None


def _batch_size(env: Env) -> int:
    size = getattr(env, "batch_size", None)
    if not isinstance(size, int) or size < 1:
        raise SpaceError(
            f"Got an environment of type {type(env).__name__} with batch_size {size}, expected a "
            "BatchedEnv; for others, pass a list of constructors."
        )
    return size
