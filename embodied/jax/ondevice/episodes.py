"""Statistics of episodes: counted on the device, read on the host.

Shapes: N worlds, M iterations of a chunk at most.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from embodied.core.device_program import EndedEpisode
from embodied.core.space import Space
from embodied.jax.pure_env import Arrays

REWARD_CHANGE = 0.01


def logged_scalars(obs_space: Mapping[str, Space]) -> list[str]:
    """Keys of an observation whose statistics are logged."""
    return [key for key, x in obs_space.items() if key.startswith("log/") and not x.shape]


def no_episodes(count: int, logged: list[str]) -> dict[str, Any]:
    """Statistics [N] before the first step."""
    zeros, none = jnp.zeros(count, jnp.float32), jnp.zeros(count, jnp.int32)
    return {
        "score": zeros,
        "steps": none,
        "reward": zeros,
        "changes": none,
        "sum": dict.fromkeys(logged, zeros),
        "max": dict.fromkeys(logged, zeros),
    }


def count_step(episodes: dict[str, Any], obs: Arrays) -> dict[str, Any]:
    """Add observations [N] to the statistics of their episodes."""
    first = obs["is_first"]
    old = jax.tree.map(lambda x: jnp.where(first, jnp.zeros_like(x), x), episodes)
    reward, begun = obs["reward"].astype(jnp.float32), old["steps"] > 0
    changed = begun & (jnp.abs(reward - old["reward"]) >= REWARD_CHANGE)
    logged = {key: obs[key].astype(jnp.float32) for key in old["sum"]}
    largest = {key: jnp.maximum(old["max"][key], x) for key, x in logged.items()}
    return {
        "score": old["score"] + reward,
        "steps": old["steps"] + 1,
        "reward": reward,
        "changes": old["changes"] + changed,
        "sum": {key: old["sum"][key] + x for key, x in logged.items()},
        "max": {key: jnp.where(begun, largest[key], x) for key, x in logged.items()},
    }


def ended_episodes(rows: Mapping[str, Any], count: int) -> list[EndedEpisode]:
    """Read those that have ended in a chunk.

    Args:
      rows: The statistics after every iteration, [M, N], and `ended`, bool [M, N].
      count: Iterations that were made.
    """
    iterations, worlds = np.nonzero(rows["ended"][:count])
    found: Any = jax.tree.map(lambda x: x[iterations, worlds].tolist(), rows)
    return [
        EndedEpisode(
            iteration=iteration,
            world=world,
            score=found["score"][index],
            steps=found["steps"][index],
            changes=found["changes"][index],
            logs={
                key: (found["steps"][index], total[index], found["max"][key][index])
                for key, total in found["sum"].items()
            },
        )
        for index, (iteration, world) in enumerate(
            zip(iterations.tolist(), worlds.tolist(), strict=True)
        )
    ]
