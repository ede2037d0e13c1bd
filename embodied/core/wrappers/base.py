"""Base class of environments that change another environment."""

from collections.abc import Mapping
from typing import Any

from embodied.core.interfaces import Env, Obs
from embodied.core.space import Space


class Wrapper(Env):
    """Passes everything through to `env`; subclasses override what they change.

    Public attributes that a wrapper does not have are those of the wrapped environment.
    """

    def __init__(self, env: Env) -> None:
        self.env = env

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of the observation."""
        return self.env.obs_space

    @property
    def act_space(self) -> dict[str, Space]:
        """Spaces of the action."""
        return self.env.act_space

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Step the wrapped environment."""
        return self.env.step(action)

    def close(self) -> None:
        """Close the wrapped environment."""
        self.env.close()

    def __getattr__(self, name: str) -> Any:
        # Private names and `env` itself are missing during construction and unpickling.
        if name.startswith("_") or name == "env":
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")
        return getattr(self.env, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.env!r})"
