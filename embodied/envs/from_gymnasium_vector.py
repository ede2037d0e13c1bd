"""Vector environments of Gymnasium, which step many instances at once."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from embodied.core.batched_env import BatchedEnv
from embodied.core.interfaces import Obs
from embodied.core.space import Space
from embodied.envs.errors import EnvError
from embodied.envs.from_gymnasium import flag_spaces, obs_key_of
from embodied.envs.gymnasium_ids import check_id, translate_errors
from embodied.envs.gymnasium_spaces import Tree
from embodied.envs.leaf import FLAGS, MAX_CLASSES, action_leaf, observation_leaf

#: Classes whose `reset` takes a seed per instance; others take a single one.
SEED_PER_INSTANCE = ("SyncVectorEnv", "AsyncVectorEnv")
#: Infos with the observation that a reset in the same step has replaced.
REPLACED = ("final_obs", "final_observation", "final_info")


class FromGymnasiumVector(BatchedEnv):
    """Adapts a `gymnasium.vector.VectorEnv` with N instances.

    Names, spaces and values are those of `FromGymnasium`. An instance whose episode has ended is
    reset by Gymnasium in the next step, which is when the driver asks for it.
    """

    def __init__(
        self,
        env: Any,
        num_envs: int = 1,
        obs_key: str = "",
        act_key: str = "action",
        seeds: Sequence[int] | None = None,
        max_classes: int = MAX_CLASSES,
        **kwargs: Any,
    ) -> None:
        """Adapt an environment.

        Args:
          env: A vector environment, or an id for `gymnasium.make_vec`.
          num_envs: Number of instances, for an id.
          obs_key: Name of the observation if the environment has a single array.
          act_key: Name of the action if the environment has a single one.
          seeds: One per instance, handed to the first reset. Environments that are no collection
            of single ones take only the first, and draw different states from it.
          max_classes: Number of values up to which observed choices are classes, not numbers.
          **kwargs: Handed to `gymnasium.make_vec` with the id.

        Raises:
          UnsupportedSpace: An observation or action has no counterpart here, such as text.
          EnvError: It does not reset instances in the step after the end of their episode.
        """
        if isinstance(env, str):
            with translate_errors(env):
                env = importlib.import_module("gymnasium").make_vec(env, num_envs, **kwargs)
        self._env = env
        self._size = int(env.num_envs)
        declared = _autoreset(env)
        self._declared = declared is not None
        if declared not in (None, "nextstep"):
            raise EnvError(_other_reset(f"the autoreset mode {env.metadata['autoreset_mode']}"))
        taken: tuple[str, ...] = (*FLAGS, "reset")
        space = env.single_observation_space
        key = obs_key or obs_key_of(space)
        self._obs = Tree(space, key, observation_leaf, taken, "obs", max_classes)
        taken = (*taken, *self._obs.leaves)
        self._act = Tree(env.single_action_space, act_key, action_leaf, taken, "act")
        self._seeds = None if seeds is None else [int(seed) for seed in seeds]
        self._done = np.ones(self._size, bool)

    @staticmethod
    def check(env: str, **kwargs: Any) -> None:
        """Check an id and the options of its constructor, see `check_id`."""
        ours = ("num_envs", "obs_key", "act_key", "seeds", "max_classes")
        options = {key: value for key, value in kwargs.items() if key not in ours}
        check_id(env, "gymnasium", "make_vec", options)

    @property
    def notes(self) -> list[str]:
        """What the user should know of how observations are translated, in sentences."""
        return self._obs.notes

    @property
    def batch_size(self) -> int:
        """Number of instances N."""
        return self._size

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of what `step` returns for one instance."""
        return {**{name: leaf.space for name, leaf in self._obs.leaves.items()}, **flag_spaces()}

    @property
    def act_space(self) -> dict[str, Space]:
        """Spaces of what `step` takes for one instance."""
        actions = {name: leaf.space for name, leaf in self._act.leaves.items()}
        return {**actions, "reset": Space(bool)}

    @property
    def unwrapped(self) -> Any:
        """The vector environment."""
        return self._env

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Reset or step all instances and translate what they return.

        Raises:
          EnvError: Some instances, but not all, are to be reset in the middle of an episode, or
            the environment has reset some in the step that ended their episode.
        """
        reset = np.asarray(action["reset"], bool)
        ended = np.zeros(self._size, bool)
        if reset.all():
            found, rewards = self._reset(), np.zeros(self._size, np.float32)
            return self._observe(found, rewards, reset, ended, ended)
        if (reset != self._done).any():
            raise EnvError(
                f"Got resets {reset.tolist()} where {self._done.tolist()} have ended, expected "
                "either all instances or those that have ended: Gymnasium cannot reset others."
            )
        result = self._env.step(self._act.unflatten(action))
        found, rewards, terminated, truncated, infos = result
        self._check_autoreset(reset, np.asarray(rewards), infos)
        rewards = np.where(reset, 0, rewards).astype(np.float32)
        return self._observe(found, rewards, reset, terminated | truncated, terminated.astype(bool))

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def _check_autoreset(self, reset: np.ndarray, rewards: np.ndarray, infos: Any) -> None:
        """Refuse an environment that starts episodes in the step that ends another one."""
        replaced = next((key for key in REPLACED if key in infos), None)
        if replaced is not None:
            raise EnvError(_other_reset(f"the info {replaced!r}"))
        if not self._declared and (rewards[reset] != 0).any():
            raise EnvError(_other_reset("a reward in the step after the end of an episode"))

    def _reset(self) -> Any:
        """Start episodes everywhere; only the first ones are seeded, so that episodes differ."""
        seeds, self._seeds = self._seeds, None
        if seeds is None:
            return self._env.reset()[0]
        names = [parent.__name__ for parent in type(self._env.unwrapped).__mro__]
        each = any(name in SEED_PER_INSTANCE for name in names)
        return self._env.reset(seed=seeds if each else seeds[0])[0]

    def _observe(
        self,
        found: Any,
        rewards: np.ndarray,
        first: np.ndarray,
        last: np.ndarray,
        terminal: np.ndarray,
    ) -> Obs:
        """Build our observation of all instances."""
        self._done = last.astype(bool)
        obs: Obs = dict(self._obs.flatten(found, (self._size,)))
        flags = {"is_first": first.copy(), "is_last": self._done.copy(), "is_terminal": terminal}
        return {**obs, "reward": rewards, **flags}


def _autoreset(env: Any) -> str | None:
    """When a vector environment resets instances, in lower-case letters; None if it does not say.

    It may be declared as a member of Gymnasium's enumeration, or as its name or value.
    """
    declared = (getattr(env, "metadata", None) or {}).get("autoreset_mode")
    if declared is None:
        return None
    name = str(getattr(declared, "value", declared)).rpartition(".")[2]
    return "".join(letter for letter in name.lower() if letter.isalpha())


def _other_reset(found: str) -> str:
    """Say that instances are reset at another time than the driver expects."""
    return (
        f"Got a vector environment with {found}, expected the autoreset mode NextStep, to reset "
        "an instance in the step after the end of its episode: make it with "
        "autoreset_mode=gymnasium.vector.AutoresetMode.NEXT_STEP and declare that in its metadata."
    )
