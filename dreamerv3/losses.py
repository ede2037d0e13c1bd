"""The actor-critic losses, as functions of arrays and distributions (spec section 3).

Nothing here knows about networks: imagined or replayed rewards, continuation and distributions
come in, losses and metrics go out. Shapes: B batch, T trained steps, K starts per row, H horizon.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from embodied.jax.normalize import Normalize
from embodied.jax.outputs import Output
from embodied.jax.returns import lambda_return

sg = jax.lax.stop_gradient


class ImaginationLoss(NamedTuple):
    """What `imagination_loss` returns.

    Attributes:
      losses: ``policy`` and ``value``, float32 [B*K, H].
      returns: Lambda returns of the imagined states, float32 [B*K, H].
      metrics: Scalars by name.
    """

    losses: dict[str, jax.Array]
    returns: jax.Array
    metrics: dict[str, jax.Array]


def imagination_loss(
    action: Mapping[str, jax.Array],
    reward: jax.Array,
    cont: jax.Array,
    policy: Mapping[str, Output],
    value: Output,
    slow_value: Output,
    *,
    retnorm: Normalize,
    valnorm: Normalize,
    advnorm: Normalize,
    update: bool,
    contdisc: bool = True,
    horizon: int = 333,
    slowtar: bool = False,
    lam: float = 0.95,
    actent: float = 3e-4,
    slowreg: float = 1.0,
) -> ImaginationLoss:
    """Policy and value losses on imagined trajectories (Algorithm F, rows 3.5 to 3.17).

    The policy is trained by REINFORCE with normalized advantages for discrete and continuous
    actions alike (paper Eq. 6), the critic by maximum likelihood of the lambda returns (paper
    Eq. 5) and of the slow critic's prediction. Both are weighted by the probability that the
    imagined episode is still going on.

    Args:
      action: Actions by key, [B*K, H+1, ...], aligned with the states that they are taken in.
      reward: Predicted reward of every state, float32 [B*K, H+1].
      cont: Predicted continuation of every state, float32 [B*K, H+1]; with `contdisc` it already
        contains the discount factor.
      policy: Action distributions by key at the states, batch shape [B*K, H+1].
      value: Critic at the states.
      slow_value: Slowly moving critic at the states.
      retnorm: Return normalizer; its scale divides the advantages.
      valnorm: Value normalizer, off by default.
      advnorm: Advantage normalizer, off by default.
      update: Whether the normalizers see this batch.
      contdisc: Whether the discount is part of `cont`; else ``1 - 1 / horizon`` is applied.
      horizon: Discount horizon in steps.
      slowtar: Bootstrap from the slow critic instead of the online critic.
      lam: Mixing factor of the lambda return.
      actent: Scale of the entropy bonus.
      slowreg: Scale of the pull towards the slow critic.
    """
    offset, scale = valnorm.stats()
    val = value.pred() * scale + offset
    slow = slow_value.pred() * scale + offset
    target = slow if slowtar else val
    disc = 1.0 if contdisc else 1 - 1 / horizon
    weight = sg(jnp.cumprod(disc * cont, 1) / disc)
    returns = lambda_return(jnp.zeros_like(cont), 1 - cont, reward, target, disc, lam)

    ret_offset, ret_scale = retnorm(returns, update)
    adv = (returns - target[:, :-1]) / ret_scale
    adv_offset, adv_scale = advnorm(adv, update)
    normed_adv = sg((adv - adv_offset) / adv_scale)
    policy_loss, entropies = _policy_loss(action, policy, normed_adv, actent)

    offset, scale = valnorm(returns, update)
    normed_target = (returns - offset) / scale
    value_loss = _critic_loss(value, slow_value, normed_target, slowreg)

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
        **_entropy_metrics(action, policy, entropies),
    }
    losses = {"policy": weight[:, :-1] * policy_loss, "value": weight[:, :-1] * value_loss}
    return ImaginationLoss(losses, returns, sg(metrics))


def replay_loss(
    last: jax.Array,
    term: jax.Array,
    reward: jax.Array,
    boot: jax.Array,
    value: Output,
    slow_value: Output,
    *,
    valnorm: Normalize,
    update: bool,
    horizon: int = 333,
    slowtar: bool = False,
    lam: float = 0.95,
    slowreg: float = 1.0,
) -> tuple[dict[str, jax.Array], jax.Array]:
    """Critic loss on replayed trajectories (Algorithm G, row 3.19).

    Args:
      last: Whether the step ends an episode, [B, K].
      term: Whether the step ends an episode for good, [B, K].
      reward: Reward received on entering the step, float32 [B, K].
      boot: Imagined lambda return from each step, float32 [B, K].
      value: Critic at the steps; its inputs may carry gradients into the world model.
      slow_value: Slowly moving critic at the steps.
      valnorm: Value normalizer, off by default.
      update: Whether the normalizer sees this batch.
      horizon: Discount horizon in steps.
      slowtar: Without effect, since the targets bootstrap from `boot`; kept because the public
        configuration names it.
      lam: Mixing factor of the lambda return.
      slowreg: Scale of the pull towards the slow critic.

    Returns:
      The loss ``repval``, float32 [B, K-1], and the lambda returns, float32 [B, K-1].
    """
    del slowtar
    last, term = jnp.asarray(last, jnp.float32), jnp.asarray(term, jnp.float32)
    returns = lambda_return(last, term, reward, boot, 1 - 1 / horizon, lam)
    offset, scale = valnorm(returns, update)
    loss = _critic_loss(value, slow_value, (returns - offset) / scale, slowreg)
    return {"repval": (1 - last)[:, :-1] * loss}, returns


def _policy_loss(
    action: Mapping[str, jax.Array],
    policy: Mapping[str, Output],
    advantage: jax.Array,
    actent: float,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """REINFORCE with an entropy bonus (paper Eq. 6); the loss and entropies by key, [B*K, H]."""
    logpi = sum(dist.logp(sg(action[key]))[:, :-1] for key, dist in policy.items())
    entropies = {key: dist.entropy()[:, :-1] for key, dist in policy.items()}
    return -(logpi * advantage + actent * sum(entropies.values())), entropies


def _critic_loss(value: Output, slow_value: Output, target: jax.Array, slowreg: float) -> jax.Array:
    """Likelihood of targets [N, H] and of what the slow critic predicts (paper Eq. 5), [N, H]."""
    padded = jnp.concatenate([target, jnp.zeros_like(target[:, -1:])], 1)
    loss = value.loss(sg(padded)) + slowreg * value.loss(sg(slow_value.pred()))
    return loss[:, :-1]


def _entropy_metrics(
    action: Mapping[str, jax.Array],
    policy: Mapping[str, Output],
    entropies: Mapping[str, jax.Array],
) -> dict[str, Any]:
    """Mean entropy per action and, for discrete ones, its share of the possible range."""
    metrics = {}
    for key, dist in policy.items():
        entropy = entropies[key].mean()
        metrics[f"ent/{key}"] = entropy
        if jnp.issubdtype(action[key].dtype, jnp.integer):
            metrics[f"rand/{key}"] = (entropy - dist.minent) / (dist.maxent - dist.minent)
    return metrics
