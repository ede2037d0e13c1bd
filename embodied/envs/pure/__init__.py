"""Environments as pure functions of JAX arrays; the protocol is in `embodied.jax.pure_env`."""

from typing import Any

from embodied.envs.errors import UnknownTask
from embodied.envs.pure import toy
from embodied.jax.pure_env import PureEnv, bounded

_TOY = "jaxtoy_"


def make_pure(task: str, config: Any) -> PureEnv:
    """Make the environment of a task, with continuous actions from -1 to 1.

    Args:
      task: `<suite>_<rest>`.
      config: The whole config.

    Raises:
      UnknownTask: There is none of that name.
    """
    if not task.startswith(_TOY):
        raise UnknownTask(
            f"Got task {task!r}, expected an environment in JAX such as {_TOY}grid; others run "
            "with --script train."
        )
    return bounded(toy.make(task.removeprefix(_TOY)))
