"""Any environment with the Gymnasium interface, and old ones with the `gym` interface."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs
from embodied.core.space import Space
from embodied.envs.gymnasium_ids import check_id, translate_errors
from embodied.envs.gymnasium_spaces import Tree
from embodied.envs.leaf import FLAGS, MAX_CLASSES, action_leaf, observation_leaf
from embodied.envs.picture_shape import picture_shape


class FromGymnasium(Env):
    """Adapts a Gymnasium environment.

    Observations and actions may be nested; names are the keys joined with `_`. The environment gets
    actions in its own range, type and structure. `terminated` ends an episode in a terminal step,
    `truncated` alone does not.

    An environment of the old `gym` interface (`reset` returns the observation alone, `step` returns
    four values) works too; there `info['TimeLimit.truncated']` marks a time limit.
    """

    def __init__(
        self,
        env: Any,
        obs_key: str = "",
        act_key: str = "action",
        seed: int | None = None,
        package: str = "gymnasium",
        max_classes: int = MAX_CLASSES,
        **kwargs: Any,
    ) -> None:
        """Adapt an environment.

        Args:
          env: An environment, or an id for `gymnasium.make`.
          obs_key: Name of the observation if the environment has a single array; by default `image`
            for pictures, `vector` for others.
          act_key: Name of the action if the environment has a single one.
          seed: Handed to the first reset.
          package: Whose `make` knows the id, `gymnasium` or the old `gym`.
          max_classes: Number of values up to which observed choices are classes, not numbers.
          **kwargs: Handed to `gymnasium.make` with the id.

        Raises:
          UnsupportedSpace: An observation or action has no counterpart here, such as text.
        """
        self._env = _make(env, package, kwargs) if isinstance(env, str) else env
        space = self._env.observation_space
        obs_key = obs_key or obs_key_of(space)
        taken: tuple[str, ...] = (*FLAGS, "reset")
        self._obs = Tree(space, obs_key, observation_leaf, taken, "obs", max_classes)
        taken = (*taken, *self._obs.leaves)
        self._act = Tree(self._env.action_space, act_key, action_leaf, taken, "act")
        self._seed = seed
        self._done = True
        self._obs_space = {
            **{name: leaf.space for name, leaf in self._obs.leaves.items()},
            **flag_spaces(),
        }
        actions = {name: leaf.space for name, leaf in self._act.leaves.items()}
        self._act_space = {**actions, "reset": Space(bool)}

    @staticmethod
    def check(env: str, package: str = "gymnasium", **kwargs: Any) -> None:
        """Check an id and the options of its constructor, see `check_id`."""
        ours = ("obs_key", "act_key", "seed", "max_classes")
        options = {key: value for key, value in kwargs.items() if key not in ours}
        check_id(env, package, "make", options)

    @property
    def notes(self) -> list[str]:
        """What the user should know of how observations are translated, in sentences."""
        return self._obs.notes

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
        """The Gymnasium environment."""
        return self._env

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Reset or step the environment and translate what it returns."""
        if action["reset"] or self._done:
            return self._reset()
        result = self._env.step(self._act.unflatten(action))
        if len(result) == 5:
            found, reward, terminated, truncated, _ = result
        else:
            found, reward, done, info = result
            truncated = bool(done and info.get("TimeLimit.truncated", False))
            terminated = done and not truncated
        return self._observe(found, reward, last=terminated or truncated, terminal=terminated)

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def _reset(self) -> Obs:
        """Start an episode; only the first one is seeded, so that episodes differ."""
        seed, self._seed = self._seed, None
        if seed is None:
            found = self._env.reset()
        elif _takes_seed(self._env.reset):
            found = self._env.reset(seed=seed)
        else:
            self._env.seed(seed)
            found = self._env.reset()
        if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], dict):
            found = found[0]
        return self._observe(found, 0.0, first=True)

    def _observe(
        self,
        found: Any,
        reward: Any,
        first: bool = False,
        last: bool = False,
        terminal: bool = False,
    ) -> Obs:
        """Build our observation."""
        self._done = bool(last)
        obs: Obs = dict(self._obs.flatten(found))
        obs["reward"] = np.float32(reward)
        obs["is_first"] = np.bool_(first)
        obs["is_last"] = np.bool_(last)
        obs["is_terminal"] = np.bool_(terminal)
        return obs


def obs_key_of(space: Any) -> str:
    """Name a single observation: `image` if it is a picture, else `vector`."""
    shape = space.shape
    if not shape:
        return "vector"
    bounds = [getattr(space, name, None) for name in ("low", "high")]
    return "image" if picture_shape(space.dtype, shape, *bounds) else "vector"


def flag_spaces() -> dict[str, Space]:
    """Spaces of what every observation has."""
    flags = ("is_first", "is_last", "is_terminal")
    return {"reward": Space(np.float32), **{key: Space(bool) for key in flags}}


def _make(name: str, package: str, kwargs: Mapping[str, Any]) -> Any:
    """Make an environment by its id; the contract is checked here and not twice per step."""
    with translate_errors(name, package):
        module = importlib.import_module(package)
        return module.make(name, **{"disable_env_checker": True, **kwargs})


def _takes_seed(reset: Any) -> bool:
    """Whether a reset method has the keyword `seed`, as it has since gym 0.26."""
    parameters = inspect.signature(reset).parameters.values()
    return any(item.name == "seed" or item.kind == item.VAR_KEYWORD for item in parameters)
