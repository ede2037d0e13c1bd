"""Base class of environments that change another environment."""

from collections.abc import Mapping
from typing import Any

from embodied.core.interfaces import Env, Obs, State
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

    def save(self) -> State | None:
        """Save the wrapped environment; wrappers that remember something add that."""
        return self.env.save() if isinstance(self.env, Env) else None

    def load(self, state: State) -> None:
        """Continue where `save` was called."""
        self.env.load(state)

    def __getattr__(self, name: str) -> Any:
        # Private names and `env` itself are missing during construction and unpickling.
        if name.startswith("_") or name == "env":
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")
        return getattr(self.env, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.env!r})"


def find_space(spaces: Mapping[str, Space], key: str) -> Space:
    """Return the space of a key that a wrapper was told to change.

    Raises:
        ValueError: If there is no such key.
    """
    if key not in spaces:
        raise ValueError(f"Got key {key!r}, expected one of {sorted(spaces)}.")
    return spaces[key]


def find_float_space(spaces: Mapping[str, Space], key: str) -> Space:
    """Like `find_space`, but the values must be floats."""
    space = find_space(spaces, key)
    if space.discrete:
        raise ValueError(f"Got key {key!r} with {space}, expected a key with float values.")
    return space
