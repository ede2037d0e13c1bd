"""Environments as pure functions of JAX arrays; the protocol is in `embodied.jax.pure_env`.

Nothing here imports JAX before an environment is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from embodied.envs.errors import EnvError, UnknownTask

if TYPE_CHECKING:
    from embodied.jax.pure_env import PureEnv


def make_pure(task: str, options: Mapping[str, Any] | None = None) -> PureEnv:
    """Make the environment of a task, with continuous actions from -1 to 1.

    Args:
      task: `<suite>_<rest>` of a suite in JAX, or the import path of a class or function.
      options: Keyword arguments of the constructor.

    Raises:
      UnknownTask: There is none of that name, or it is not in JAX.
      UnknownOption: The constructor has no such keyword.
      MissingExtra: A package that the suite needs is not installed.
      EnvError: What the import path makes is no pure environment.
    """
    from embodied.envs import registry
    from embodied.envs.catalog import SUITES
    from embodied.envs.pure.kind import is_pure
    from embodied.jax.pure_env import bounded

    suite = registry.suite_of(task)
    if suite in SUITES and not SUITES[suite].pure:
        known = ", ".join(name for name, entry in SUITES.items() if entry.pure)
        raise UnknownTask(
            f"Got task {task!r}, expected an environment in JAX, which is an import path or a task "
            f"of {known}; others run with --script train."
        )
    env = registry.construct(task, options)
    if not is_pure(env):
        raise EnvError(
            f"Got {type(env).__name__} from {task!r}, expected an environment in JAX with "
            "reset(key) and step(state, action, key); others run with --script train."
        )
    return bounded(env)
