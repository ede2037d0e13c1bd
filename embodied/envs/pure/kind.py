"""Tells pure environments from others, without JAX."""

from __future__ import annotations

import inspect
from typing import Any

#: State, action and random key.
_STEP_ARGUMENTS = 3


def is_pure(env: Any) -> bool:
    """Whether an environment, or a class of environments, consists of pure functions.

    It then has `reset` and a `step` of three arguments, see `PureEnv` in `embodied.jax.pure_env`;
    that of an `Env` takes the action alone.
    """
    step, reset = getattr(env, "step", None), getattr(env, "reset", None)
    if not callable(step) or not callable(reset) or hasattr(env, "observation_space"):
        return False
    try:
        count = len(inspect.signature(step).parameters)
    except (TypeError, ValueError):
        return False
    return count - inspect.isclass(env) == _STEP_ARGUMENTS
