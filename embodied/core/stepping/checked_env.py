"""One environment as the driver sees it: numbered, with checked observations and clear failures."""

import traceback
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs, State
from embodied.core.space import Space, SpaceError, SpacesCheck

_REQUIRED = {"reward": np.float32, "is_first": bool, "is_last": bool, "is_terminal": bool}


#: Separates what went wrong from the traceback in the message of a `WorkerError`.
TRACEBACK = "\nOriginal traceback:\n"

#: What an environment may raise to fail; a KeyboardInterrupt here can be the user's own.
FAILURES = (Exception, SystemExit, GeneratorExit)


class WorkerError(RuntimeError):
    """An environment failed; the message has worker, step and the complete original traceback.

    Attributes:
        worker: Index of the environment.
        step: Number of the `step` call that failed, counted from 1; 0 is the construction.
    """

    def __init__(self, worker: int, step: int, reason: str) -> None:
        """Create the error; `reason` completes the sentence `Env worker 3 ... (at step 50)`."""
        self.worker = worker
        self.step = step
        self.reason = reason
        moment = f"at step {step}" if step else "during construction"
        super().__init__(f"Env worker {worker} failed {moment}: {reason}")

    def __reduce__(self) -> tuple[Any, ...]:
        return WorkerError, (self.worker, self.step, self.reason)


class CheckedEnv:
    """Constructs and steps one environment and checks each observation at the door.

    Attributes:
        obs_space: Observation spaces without `log/` keys.
        log_space: Observation spaces of `log/` keys.
        act_space: Action spaces, `reset` included.
    """

    def __init__(self, index: int, make_env: Callable[[], Env]) -> None:
        """Construct the environment.

        Raises:
            WorkerError: If the constructor raises or its spaces break the contract of `Env`.
        """
        self._index = index
        self._steps = 0
        try:
            self._env = make_env()
            spaces = dict(self._env.obs_space)
            self.act_space: dict[str, Space] = dict(self._env.act_space)
            check_declared(spaces, self.act_space)
        except FAILURES as error:
            raise self.failure(error) from error
        self.obs_space = {k: v for k, v in spaces.items() if not k.startswith("log/")}
        self.log_space = {k: v for k, v in spaces.items() if k.startswith("log/")}
        self._check = SpacesCheck(spaces, "observation")

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Step the environment.

        Raises:
            WorkerError: If the environment raises, its observation does not fit its spaces or a
                reset does not start an episode.
        """
        self._steps += 1
        try:
            obs = self._env.step(action)
            self._check(obs)
            if action["reset"] and not obs["is_first"]:
                message = "key 'is_first': expected True after a reset, got False"
                raise SpaceError(f"Invalid observation: {message}.")
        except FAILURES as error:
            raise self.failure(error) from error
        return obs

    def save(self) -> State | None:
        """Return the state of the environment, None if it has no such thing."""
        inner = self._env.save() if isinstance(self._env, Env) else None
        return None if inner is None else {"env": inner, "steps": self._steps}

    def load(self, state: State) -> None:
        """Continue where `save` was called."""
        self._env.load(state["env"])
        self._steps = state["steps"]

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def failure(self, error: BaseException) -> WorkerError:
        """Return the error to raise for what went wrong at the current step."""
        return WorkerError(self._index, self._steps, explain(error))


def explain(error: BaseException) -> str:
    """Say what went wrong, with the complete traceback unless the message says it all."""
    if isinstance(error, SpaceError):
        return str(error)
    text = "".join(traceback.format_exception(error)).rstrip()
    return f"{type(error).__name__}: {error}{TRACEBACK}{text}"


def check_declared(obs_space: Mapping[str, Space], act_space: Mapping[str, Space]) -> None:
    """Check that the keys of the contract are declared.

    Raises:
        SpaceError: Naming the key, what was expected and what was got.
    """
    for key, dtype in _REQUIRED.items():
        space = obs_space.get(key)
        if space is None or space.dtype != dtype or space.shape:
            expected = f"Space({np.dtype(dtype)}, ())"
            raise SpaceError(f"Invalid obs_space: key {key!r}: expected {expected}, got {space}.")
    reset = act_space.get("reset")
    if reset is None or reset.dtype != bool or reset.shape:
        message = "key 'reset': expected Space(bool, ())"
        raise SpaceError(f"Invalid act_space: {message}, got {reset}.")
    shared = sorted(set(obs_space) & set(act_space))
    if shared:
        message = "expected different keys for observations and actions, got both for"
        raise SpaceError(f"Invalid spaces: {message} {shared}; rename them.")
