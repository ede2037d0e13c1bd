"""Evaluation on the device: whole episodes of the policy, apart from training.

Shapes: E environments, each of which has one episode.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from embodied.jax import nj
from embodied.jax.model import Model
from embodied.jax.pure_env import Arrays, PureEnv, advance, initial


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """How episodes of an evaluation are run.

    Attributes:
      episodes: How many E.
      limit: Steps after which an episode is cut off, 0 for never.
      deterministic: Whether to take the most likely latents and actions.
    """

    episodes: int
    limit: int
    deterministic: bool


class _Episodes(NamedTuple):
    step: Any
    worlds: Any
    carry: Any
    action: Any
    reset: Any
    running: Any
    cut: Any
    score: Any
    length: Any


def evaluate(
    model: Model,
    env: PureEnv,
    params: Any,
    key: jax.Array,
    options: Evaluation,
    axis: str | None = None,
) -> Arrays:
    """Run an episode in each of E environments.

    Args:
      model: Acts.
      env: One environment.
      params: State of the model.
      key: Random key.
      options: How many, and how.
      axis: Name of the axis that this is mapped over, if it is.

    Returns:
      `score`, float32 [E], `length`, int32 [E], and `partial`, bool [E]: those that were cut off.
    """
    world_key, policy_key = jax.random.split(key)
    episodes, act = options.episodes, nj.pure(model.policy)

    def step(now: _Episodes) -> _Episodes:
        worlds, obs = advance(env, now.worlds, now.action, now.reset, world_key, now.step, axis)
        seen = {name: x for name, x in obs.items() if not name.startswith("log/")}
        seed = jax.random.fold_in(policy_key, now.step)
        carry, action, _ = act(params, now.carry, seen, options.deterministic, seed=seed)[1]
        sent = {name: action[name].astype(x.dtype) for name, x in env.act_space.items()}
        length = now.length + (now.running & ~obs["is_first"])
        score = now.score + jnp.where(now.running, obs["reward"], 0)
        running, cut = now.running & ~obs["is_last"], now.cut
        if options.limit:
            cut |= running & (length >= options.limit)
        reset = obs["is_last"]
        return _Episodes(
            now.step + 1, worlds, carry, sent, reset, running & ~cut, cut, score, length
        )

    begin = _Episodes(
        step=jnp.zeros((), jnp.int32),
        worlds=initial(env, episodes, world_key),
        carry=nj.pure(model.init_policy)({}, episodes)[1],
        action={k: jnp.zeros((episodes, *x.shape), x.dtype) for k, x in env.act_space.items()},
        reset=jnp.ones(episodes, bool),
        running=jnp.ones(episodes, bool),
        cut=jnp.zeros(episodes, bool),
        score=jnp.zeros(episodes, jnp.float32),
        length=jnp.zeros(episodes, jnp.int32),
    )
    end = jax.lax.while_loop(lambda now: now.running.any(), step, begin)
    return {"score": end.score, "length": end.length, "partial": end.cut}
