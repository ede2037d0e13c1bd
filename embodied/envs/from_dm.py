"""Any environment with the dm_env interface."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs
from embodied.core.space import Space
from embodied.envs.errors import UnsupportedSpace
from embodied.envs.leaf import (
    FLAGS,
    MAX_CLASSES,
    Leaf,
    action_leaf,
    leaf_name,
    named,
    observation_leaf,
)


class FromDM(Env):
    """Adapts a `dm_env.Environment`.

    Observations: one key per array, `/` in names becomes `_`, float64 becomes float32. An episode
    that ends with discount 0 ends in a terminal step, any other end is a time limit.
    """

    def __init__(
        self,
        env: Any,
        obs_key: str = "observation",
        act_key: str = "action",
        ignore: Collection[str] = (),
        max_classes: int = MAX_CLASSES,
    ) -> None:
        """Adapt an environment.

        Args:
          env: The environment, already made.
          obs_key: Name of the observation if the environment has a single array.
          act_key: Name of the action if the environment has a single array.
          ignore: The environment's own names of observations that are left out.
          max_classes: Number of values up to which observed choices are classes, not numbers.

        Raises:
          UnsupportedSpace: An observation or action is not a numeric array, or two of them would
            get the same name.
        """
        self._env = env
        observation, action = env.observation_spec(), env.action_spec()
        self._obs_key = None if isinstance(observation, Mapping) else obs_key
        self._act_key = None if isinstance(action, Mapping) else act_key
        if self._obs_key is not None:
            observation = {obs_key: observation}
        if self._act_key is not None:
            action = {act_key: action}
        observation = {key: spec for key, spec in observation.items() if key not in ignore}
        taken = (*FLAGS, "reset")
        self._obs = _leaves(observation, observation_leaf, taken, "obs", max_classes)
        names = [key for _, key, _ in self._obs]
        self._act = _leaves(action, action_leaf, (*FLAGS, "reset", *names), "act")
        self._done = True
        self._obs_space = {
            **{key: leaf.space for _, key, leaf in self._obs},
            "reward": Space(np.float32),
            "is_first": Space(bool),
            "is_last": Space(bool),
            "is_terminal": Space(bool),
        }
        self._act_space = {key: leaf.space for _, key, leaf in self._act} | {"reset": Space(bool)}

    @property
    def notes(self) -> list[str]:
        """What the user should know of how observations are translated, in sentences."""
        return [f"Observation {key!r} {leaf.note}." for _, key, leaf in self._obs if leaf.note]

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of what `step` returns."""
        return self._obs_space

    @property
    def act_space(self) -> dict[str, Space]:
        """Spaces of what `step` takes."""
        return self._act_space

    @property
    def unwrapped(self) -> Any:
        """The dm_env environment."""
        return self._env

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Reset or step the environment and translate what it returns."""
        if action["reset"] or self._done:
            timestep = self._env.reset()
        else:
            timestep = self._env.step(self._decode(action))
        first, last = timestep.first(), timestep.last()
        self._done = last
        found = timestep.observation
        if self._obs_key is not None:
            found = {self._obs_key: found}
        obs: Obs = {key: leaf.encode(found[name], key) for name, key, leaf in self._obs}
        reward, discount = timestep.reward, timestep.discount
        obs["reward"] = np.float32(0 if first or reward is None else reward)
        obs["is_first"] = np.bool_(first)
        obs["is_last"] = np.bool_(last)
        obs["is_terminal"] = np.bool_(last and discount == 0)
        return obs

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def _decode(self, action: Mapping[str, Any]) -> Any:
        """Build the action that the environment expects."""
        # Indexing turns arrays without dimensions into scalars, which some environments look up.
        values = {name: leaf.decode(action[key])[()] for name, key, leaf in self._act}
        return values if self._act_key is None else values[self._act_key]


def _leaves(
    specs: Mapping[str, Any],
    make: Callable[..., Leaf],
    taken: Collection[str],
    prefix: str,
    max_classes: int = 0,
) -> list[tuple[str, str, Leaf]]:
    """List original name, our name and leaf of every array in a dict of specs.

    Observations without elements are left out; some bodies have them for sensors they lack.
    """
    leaves: list[tuple[str, str, Leaf]] = []
    for name, spec in specs.items():
        if not all(hasattr(spec, field) for field in ("dtype", "shape")):
            raise UnsupportedSpace(
                f"Got {type(spec).__name__} for {name!r}, expected an array spec; flatten nested "
                "specs into one dict first."
            )
        if 0 in spec.shape and prefix == "obs":
            continue
        key = leaf_name(name, taken, prefix)
        if any(key == other for _, other, _ in leaves):
            raise UnsupportedSpace(f"Two arrays would be named {key!r}; rename one of them.")
        bounds = getattr(spec, "minimum", None), getattr(spec, "maximum", None)
        declared = {"choices": max_classes} if max_classes and hasattr(spec, "num_values") else {}
        with named(key, prefix):
            leaves.append((name, key, make(spec.dtype, tuple(spec.shape), *bounds, **declared)))
    return leaves
