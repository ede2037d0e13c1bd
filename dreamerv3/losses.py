"""The actor-critic losses, as functions of arrays and distributions (paper Eq. 4 to 7).

Nothing here knows about networks: imagined or replayed rewards, continuation and distributions
come in, losses and metrics go out. A loss has a value per state, with its own gradient: weights,
masks and further terms can be applied to any of them, here or to what `Dreamer.losses` returns.
Shapes: B batch, T trained steps, K starts per row, H horizon.
"""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from embodied.jax.distributions import Distribution
from embodied.jax.normalize import Normalize
from embodied.jax.returns import lambda_return

sg = jax.lax.stop_gradient


class ImaginationTargets(NamedTuple):
    """What `imagination_targets` returns; all carry no gradient.

    Attributes:
      weight: Discounted probability that the episode goes on from the state, float32 [B*K, H].
      advantage: Normalized advantage of the action in the state, float32 [B*K, H].
      value: Normalized lambda return, what the critic should predict, float32 [B*K, H].
      returns: Lambda return, float32 [B*K, H].
      metrics: Scalars by name.
    """

    weight: jax.Array
    advantage: jax.Array
    value: jax.Array
    returns: jax.Array
    metrics: dict[str, jax.Array]


def imagination_targets(
    reward: jax.Array,
    cont: jax.Array,
    value: jax.Array,
    slow_value: jax.Array,
    *,
    retnorm: Normalize,
    valnorm: Normalize,
    advnorm: Normalize,
    update: bool,
    contdisc: bool = True,
    horizon: int = 333,
    slowtar: bool = False,
    lam: float = 0.95,
) -> ImaginationTargets:
    """What actor and critic learn on imagined trajectories (paper Eq. 5 and 7).

    Args:
      reward: Predicted reward of every state, float32 [B*K, H+1].
      cont: Predicted continuation of every state, float32 [B*K, H+1]; with `contdisc` it already
        contains the discount factor.
      value: Prediction of the critic for every state, float32 [B*K, H+1].
      slow_value: Prediction of the slowly moving critic, float32 [B*K, H+1].
      retnorm: Return normalizer; its scale divides the advantages.
      valnorm: Value normalizer, off by default.
      advnorm: Advantage normalizer, off by default.
      update: Whether the normalizers see this batch.
      contdisc: Whether the discount is part of `cont`; else ``1 - 1 / horizon`` is applied.
      horizon: Discount horizon in steps.
      slowtar: Bootstrap from the slow critic instead of the online critic.
      lam: Mixing factor of the lambda return.
    """
    offset, scale = valnorm.stats()
    val, slow = value * scale + offset, slow_value * scale + offset
    target = slow if slowtar else val
    disc = 1.0 if contdisc else 1 - 1 / horizon
    weight = jnp.cumprod(disc * cont, 1) / disc
    returns = lambda_return(jnp.zeros_like(cont), 1 - cont, reward, target, disc, lam)

    ret_offset, ret_scale = retnorm(returns, update)
    adv = (returns - target[:, :-1]) / ret_scale
    adv_offset, adv_scale = advnorm(adv, update)
    normed_adv = (adv - adv_offset) / adv_scale
    offset, scale = valnorm(returns, update)
    normed_target = (returns - offset) / scale

    normed_ret = (returns - ret_offset) / ret_scale
    metrics = {
        "adv": adv.mean(),
        "adv_std": adv.std(),
        "adv_mag": jnp.abs(adv).mean(),
        "rew": reward.mean(),
        "con": cont.mean(),
        "ret": normed_ret.mean(),
        "val": val.mean(),
        "tar": normed_target.mean(),
        "weight": weight.mean(),
        "slowval": slow.mean(),
        "ret_min": normed_ret.min(),
        "ret_max": normed_ret.max(),
        "ret_rate": (jnp.abs(normed_ret) >= 1.0).mean(),
    }
    return sg(ImaginationTargets(weight[:, :-1], normed_adv, normed_target, returns, metrics))


def policy_loss(
    policy: Mapping[str, Distribution],
    action: Mapping[str, jax.Array],
    advantage: jax.Array,
    weight: jax.Array,
    actent: float = 3e-4,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """REINFORCE with an entropy bonus, for all kinds of actions (paper Eq. 6).

    Args:
      policy: Action distributions by key, of some states [...].
      action: Actions that were taken in them by key, [..., *action].
      advantage: Normalized advantages of the actions, float32 [...].
      weight: Probabilities that the states are part of an episode, float32 [...].
      actent: Scale of the entropy bonus.

    Returns:
      The loss, float32 [...], and as metrics, float32 [...] too, the entropy ``ent/<key>`` per
      action and, for discrete ones, its share of the possible range as ``rand/<key>``.
    """
    logpi = sum(dist.logp(sg(action[key])) for key, dist in policy.items())
    entropy = {key: dist.entropy() for key, dist in policy.items()}
    loss = -(logpi * sg(advantage) + actent * sum(entropy.values()))
    metrics = {}
    for key, dist in policy.items():
        metrics[f"ent/{key}"] = entropy[key]
        if jnp.issubdtype(action[key].dtype, jnp.integer):
            span = dist.maxent - dist.minent  # Zero for an action without a choice.
            metrics[f"rand/{key}"] = (entropy[key] - dist.minent) / jnp.where(span > 0, span, 1)
    return sg(weight) * loss, sg(metrics)


def value_loss(
    value: Distribution,
    target: jax.Array,
    slow_value: jax.Array,
    weight: jax.Array | float = 1.0,
    slowreg: float = 1.0,
) -> jax.Array:
    """Likelihood of targets and of what the slow critic predicts (paper Eq. 5).

    Args:
      value: Critic at some states [...].
      target: Normalized returns, float32 [...].
      slow_value: Predictions of the slowly moving critic, float32 [...].
      weight: Probabilities that the states are part of an episode, float32 [...].
      slowreg: Scale of the pull towards the slow critic.
    """
    return sg(weight) * (value.loss(sg(target)) + slowreg * value.loss(sg(slow_value)))


def replay_loss(
    last: jax.Array,
    term: jax.Array,
    reward: jax.Array,
    boot: jax.Array,
    value: Distribution,
    slow_value: jax.Array,
    *,
    valnorm: Normalize,
    update: bool,
    horizon: int = 333,
    lam: float = 0.95,
    slowreg: float = 1.0,
) -> tuple[jax.Array, jax.Array]:
    """Critic loss on replayed trajectories (paper, section on critic learning).

    Args:
      last: Whether the step ends an episode, [B, K].
      term: Whether the step ends an episode for good, [B, K].
      reward: Reward received on entering the step, float32 [B, K].
      boot: Imagined lambda return from each step, float32 [B, K].
      value: Critic at the steps; its inputs may carry gradients into the world model.
      slow_value: Predictions of the slowly moving critic, float32 [B, K].
      valnorm: Value normalizer, off by default.
      update: Whether the normalizer sees this batch.
      horizon: Discount horizon in steps.
      lam: Mixing factor of the lambda return.
      slowreg: Scale of the pull towards the slow critic.

    Returns:
      The loss, float32 [B, K-1], and the lambda returns, float32 [B, K-1].
    """
    last, term = jnp.asarray(last, jnp.float32), jnp.asarray(term, jnp.float32)
    returns = lambda_return(last, term, reward, boot, 1 - 1 / horizon, lam)
    offset, scale = valnorm(returns, update)
    # The last step has no return; what it is padded with is cut off again.
    target = jnp.pad((returns - offset) / scale, ((0, 0), (0, 1)))
    loss = value_loss(value, target, slow_value, 1 - last, slowreg)[:, :-1]
    return loss, returns
