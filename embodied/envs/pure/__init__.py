"""Environments as pure functions of JAX arrays; the protocol is in `embodied.jax.pure_env`.

Nothing here imports JAX before an environment is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embodied.envs.errors import UnknownTask

if TYPE_CHECKING:
    from embodied.jax.pure_env import PureEnv

_TOY = "jaxtoy_"


def make_pure(task: str, config: Any) -> PureEnv:
    """Make the environment of a task, with continuous actions from -1 to 1.

    Args:
      task: `<suite>_<rest>`.
      config: The whole config.

    Raises:
      UnknownTask: There is none of that name.
    """
    from embodied.envs.pure import toy
    from embodied.jax.pure_env import bounded

    if not task.startswith(_TOY):
        raise UnknownTask(
            f"Got task {task!r} for the script ondevice, expected an environment in JAX such as "
            f"{_TOY}grid; others run with --script train."
        )
    return bounded(toy.make(task.removeprefix(_TOY)))
