"""Environments as pure functions of JAX arrays, and N copies of one that step together.

An environment has no state of its own: `reset` and `step` return it. Nothing starts an episode by
itself; the step after a last one is a reset, as in `Driver`.

Shapes: N worlds, which are copies of one environment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from embodied.core.space import Space

Arrays = dict[str, jax.Array]
State = Any

FLAGS = ("is_first", "is_last", "is_terminal")
#: What every observation has besides the keys of its own.
SIGNALS = {"reward": Space(np.float32), **{key: Space(bool) for key in FLAGS}}
#: Bounds of this size or more are none.
UNBOUNDED = 1e30


class PureEnv(ABC):
    """One environment as functions of arrays, without a batch dimension.

    Nothing has to be inherited: any class with these four members will do. Keys of an observation
    that start with `log/` are logged and never reach the agent. An environment that can be drawn
    also has `draw(state)`, which returns a picture, uint8 [height, width, 3], and is not compiled.
    """

    @property
    @abstractmethod
    def obs_space(self) -> Mapping[str, Space]:
        """Space of every key of an observation; those of reward and flags may be left out."""

    @property
    @abstractmethod
    def act_space(self) -> Mapping[str, Space]:
        """Space of every key of an action. There is no `reset`, which is a function here."""

    @abstractmethod
    def reset(self, key: jax.Array) -> tuple[State, Arrays]:
        """Start an episode.

        Args:
          key: Random key, uint32 [2].

        Returns:
          The state, any tree of arrays, and the first observation; reward, flags and `log/` keys
          may be left out.
        """

    @abstractmethod
    def step(self, state: State, action: Arrays, key: jax.Array) -> tuple[State, Arrays]:
        """Act.

        Args:
          state: What `reset` or `step` has returned.
          action: A value for every key of `act_space`.
          key: Random key, uint32 [2].

        Returns:
          The next state, of the same shapes and types, and the observation with `reward`,
          `is_last` and `is_terminal`. A time limit is last but not terminal. After a last step the
          state is not used again.
        """


def whole_obs_space(env: PureEnv) -> dict[str, Space]:
    """Space of every key that `advance` returns, `log/` keys included."""
    return {**env.obs_space, **SIGNALS}


def initial(env: PureEnv, count: int, key: jax.Array) -> State:
    """States [N, ...] to begin with; the first `advance` has to reset them all."""
    return jax.vmap(env.reset)(_world_keys(key, count, 0))[0]


def advance(
    env: PureEnv,
    state: State,
    action: Mapping[str, jax.Array],
    reset: jax.Array,
    key: jax.Array,
    n: int | jax.Array,
    axis: str | None = None,
) -> tuple[State, Arrays]:
    """Step N worlds, and start episodes where it is due.

    Args:
      env: The environment.
      state: States [N, ...].
      action: Actions [N, ...] by key; ignored where a world is reset.
      reset: Where to start an episode, bool [N].
      key: Random key of all worlds, the same at every step.
      n: Number of the step, which with the key and the world gives each its own key.
      axis: Name of the axis that this is mapped over with `vmap`, if it is.

    Returns:
      The states and the observations [N, ...], of the types of `whole_obs_space`. A first
      observation has reward 0 and no other flag.
    """
    count = len(reset)
    keys = _world_keys(key, count, n)
    stepped, after = jax.vmap(env.step)(state, dict(action), keys)
    obs = _typed(env, count, {**after, "is_first": jnp.zeros(count, bool)})

    def start(state: State, obs: Arrays) -> tuple[State, Arrays]:
        fresh, first = jax.vmap(env.reset)(keys)
        shown = {key: value for key, value in first.items() if key not in SIGNALS}
        first = _typed(env, count, {**shown, "is_first": jnp.ones(count, bool)})
        chosen: tuple[State, Arrays] = _where(reset, (fresh, first), (state, obs))
        return chosen

    # Resets are rare and may be expensive. All that is mapped over takes the same branch.
    some = reset.any()
    if axis:
        some = jax.lax.pmax(some.astype(jnp.int32), axis) > 0
    result: tuple[State, Arrays] = jax.lax.cond(some, start, lambda *same: same, stepped, obs)
    return result


def bounded(env: PureEnv) -> PureEnv:
    """Let continuous actions range from -1 to 1, clip what is beyond, and scale to the bounds.

    The caller keeps what it has chosen: the replay holds unclipped actions. Discrete actions stay
    as they are, and so do those without bounds.
    """
    return _Bounded(env)


def time_limit(env: PureEnv, length: int) -> PureEnv:
    """End an episode after `length` steps, which is not terminal."""
    return _TimeLimit(env, length)


class _Wrapper(PureEnv):
    """Hands everything on to another environment."""

    def __init__(self, env: PureEnv) -> None:
        self._env = env

    @property
    def obs_space(self) -> Mapping[str, Space]:
        return self._env.obs_space

    @property
    def act_space(self) -> Mapping[str, Space]:
        return self._env.act_space

    def reset(self, key: jax.Array) -> tuple[State, Arrays]:
        return self._env.reset(key)

    def step(self, state: State, action: Arrays, key: jax.Array) -> tuple[State, Arrays]:
        return self._env.step(state, action, key)


class _Bounded(_Wrapper):
    def __init__(self, env: PureEnv) -> None:
        super().__init__(env)
        self._scaled = {key: x for key, x in env.act_space.items() if has_bounds(x)}

    @property
    def act_space(self) -> Mapping[str, Space]:
        unit = {key: Space(np.float32, x.shape, -1, 1) for key, x in self._scaled.items()}
        return {**self._env.act_space, **unit}

    def step(self, state: State, action: Arrays, key: jax.Array) -> tuple[State, Arrays]:
        sent = dict(action)
        for name, space in self._scaled.items():
            share = (jnp.clip(action[name], -1, 1) + 1) / 2
            sent[name] = (space.low + share * (space.high - space.low)).astype(space.dtype)
        return self._env.step(state, sent, key)


class _TimeLimit(_Wrapper):
    def __init__(self, env: PureEnv, length: int) -> None:
        super().__init__(env)
        self._length = length

    def reset(self, key: jax.Array) -> tuple[State, Arrays]:
        state, obs = self._env.reset(key)
        return (state, jnp.int32(0)), obs

    def step(self, state: State, action: Arrays, key: jax.Array) -> tuple[State, Arrays]:
        inner, count = state
        inner, obs = self._env.step(inner, action, key)
        count = count + 1
        return (inner, count), {**obs, "is_last": obs["is_last"] | (count >= self._length)}


def has_bounds(space: Space) -> bool:
    """Whether a space is continuous, between bounds that mean something."""
    return not space.discrete and bool((np.abs([space.low, space.high]) < UNBOUNDED).all())


def _world_keys(key: jax.Array, count: int, n: int | jax.Array) -> jax.Array:
    fold = jax.random.fold_in
    return jax.vmap(lambda world: fold(fold(key, world), n))(jnp.arange(count))


def _typed(env: PureEnv, count: int, obs: Arrays) -> Arrays:
    """Observations of the declared types; what is not there is zero."""
    return {
        key: jnp.asarray(obs[key]).astype(space.dtype)
        if key in obs
        else jnp.zeros((count, *space.shape), space.dtype)
        for key, space in whole_obs_space(env).items()
    }


def _where(mask: jax.Array, new: Any, old: Any) -> Any:
    def choose(x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.where(mask.reshape(mask.shape + (1,) * (x.ndim - 1)), x, y)

    return jax.tree.map(choose, new, old)
