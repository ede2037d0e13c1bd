"""Trajectories that the world model imagines, and what the heads predict on them.

The trajectories start in replayed states and follow the actor. The large arrays have their time
axis first, so that heads can read one step after the other: the states of one step fit the caches
of a CPU, while those of all steps are by far the largest arrays of an update.
Shapes: N starts, H horizon, F features.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from dreamerv3.rssm import RSSM, Draw, features
from embodied.jax import nj
from embodied.jax.heads import Activations, MLPHead
from embodied.jax.slow_model import SlowModel

Arrays = dict[str, jax.Array]


class Trajectories(NamedTuple):
    """Imagined trajectories of H actions and H + 1 states.

    Attributes:
      x: Features of the states in which the actor acted, [H, N, F].
      last: Features of the state after them, [N, F].
      action: Actions by key, [H, N, ...].
      actor: What the actor computed to choose them, for `MLPHead.recall`.
    """

    x: jax.Array
    last: jax.Array
    action: Arrays
    actor: Activations


class Predictions(NamedTuple):
    """What heads predict for all states of trajectories, float32 [N, H+1].

    Attributes:
      reward: Reward on entering the state.
      cont: Probability that the episode goes on.
      value: Prediction of the critic.
      slow_value: Prediction of the slowly moving critic.
      critic: What the critic computed for the first H states, for `MLPHead.recall`.
    """

    reward: jax.Array
    cont: jax.Array
    value: jax.Array
    slow_value: jax.Array
    critic: Activations


def imagine(dyn: RSSM, actor: MLPHead, start: Arrays, length: int, draw: Draw) -> Trajectories:
    """Follow the actor from states [N, ...] for H = `length` steps.

    Args:
      dyn: World model.
      actor: Chooses the actions.
      start: ``deter`` [N, D] and ``stoch`` [N, S, C].
      length: Number of steps.
      draw: How actions and latents are drawn from their distributions.
    """

    def policy(state: Arrays) -> tuple[Arrays, tuple[jax.Array, Activations]]:
        x = features(state)
        activations = actor.activations(x)
        policy = actor.distribution(activations.last)
        return {key: draw(dist) for key, dist in policy.items()}, (x, activations)

    start = {key: start[key] for key in ("deter", "stoch")}
    last, action, (x, activations) = dyn.imagine(start, policy, length, draw)
    return Trajectories(x, features(last), action, activations)


def evaluate(
    trajectories: Trajectories,
    rew: MLPHead,
    con: MLPHead,
    val: MLPHead,
    slowval: SlowModel,
    *,
    steps: bool,
) -> Predictions:
    """Predict reward, continuation, value and slow value of imagined states.

    Args:
      trajectories: The states.
      rew: Reward head.
      con: Continuation head.
      val: Critic.
      slowval: Slowly moving critic.
      steps: Whether heads read one step after the other instead of all at once.
    """

    def heads(x: jax.Array) -> tuple[tuple[jax.Array, ...], Activations]:
        dims = x.ndim - 1
        activations = val.activations(x, dims)
        value = val.distribution(activations.last).pred()
        reward, cont = rew(x, dims).pred(), con(x, dims).prob(1)
        return (reward, cont, value, slowval(x, dims).pred()), activations

    if steps:
        _, (before, critic) = nj.scan(lambda _, x: (None, heads(x)), None, trajectories.x)
    else:
        before, critic = heads(trajectories.x)
    pairs = zip(before, heads(trajectories.last)[0], strict=True)
    reward, cont, value, slow = (jnp.concatenate([y, last[None]]).T for y, last in pairs)
    return Predictions(reward, cont, value, slow, critic)
