"""What actor and critic learn on trajectories that the world model imagines.

The trajectories start in replayed states and follow the actor. Everything imagined has its time
axis first, so that heads can read one step after the other: the states of one step fit the caches
of a CPU, while those of all steps are by far the largest arrays of an update.
Shapes: B batch, K imagination starts per row, N = B*K, H horizon, F features.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from dreamerv3.losses import ImaginationTargets, imagination_targets, policy_loss, value_loss
from dreamerv3.rssm import features
from embodied.jax import nj

if TYPE_CHECKING:
    from dreamerv3.agent import Dreamer

sg = jax.lax.stop_gradient
Arrays = dict[str, jax.Array]


def imagination_losses(
    model: Dreamer, feat: Arrays, obs: Arrays, training: bool
) -> tuple[Arrays, jax.Array, Arrays]:
    """Actor and critic losses on trajectories that start in replayed states (Algorithm F).

    Args:
      model: The agent.
      feat: Features of the replayed states, [B, T, ...].
      obs: Observations, [B, T, ...].
      training: Whether the normalizers see this batch.

    Returns:
      The losses ``policy`` and ``value`` [B, K], which carry the gradient of their mean only, the
      lambda returns of the replayed states [B, K], and metrics.
    """
    batch, length = obs["is_first"].shape
    starts = min(model.config.imag_last or length, length)
    start = {k: x[:, -starts:].reshape((-1, *x.shape[2:])) for k, x in feat.items()}
    terminal = obs["is_terminal"][:, -starts:].reshape(-1)
    x, last, action, actor_first = nj.stop_gradient(lambda: imagine(model, sg(start)))()
    predictions, critic_first = nj.stop_gradient(lambda: evaluate(model, x, last))()
    reward, cont, value, slow = predictions
    if model.config.imag_start == "replay":
        cont = cont.at[:, 0].set(1.0 - terminal)
    targets = _targets(model, training, reward, cont, value, slow)
    if model.config.ac_grads:
        x = x.at[0].set(features(start))
    inputs = {
        "policy": (x, actor_first, action, targets.advantage.T, targets.weight.T),
        "value": (x, critic_first, targets.value.T, slow.T[:-1], targets.weight.T),
    }
    losses, metrics = _losses(model, inputs)
    losses = {key: loss.reshape((batch, starts)) for key, loss in losses.items()}
    returns = targets.returns[:, 0].reshape((batch, starts))
    return losses, returns, targets.metrics | metrics


def imagine(model: Dreamer, state: Arrays) -> tuple[jax.Array, jax.Array, Arrays, jax.Array]:
    """Follow the policy from states [N, ...] for H steps.

    Returns:
      Features of the states that it acted in [H, N, F], of the last state [N, F], the actions
      [H, N, ...], and what the first layer of the policy made of the features [H, N, U].
    """

    def policy(state: Arrays) -> tuple[Arrays, tuple[jax.Array, jax.Array]]:
        x = features(state)
        first = model.pol.first(x)
        return {k: model.draw(dist) for k, dist in model.pol(x, 1, first).items()}, (x, first)

    state = {k: state[k] for k in ("deter", "stoch")}
    last, action, (x, first) = model.dyn.imagine(state, policy, model.config.imag_length)
    return x, features(last), action, first


def evaluate(model: Dreamer, x: jax.Array, last: jax.Array) -> tuple[list[jax.Array], jax.Array]:
    """Predict reward, continuation, value and slow value of imagined states.

    Args:
      model: The agent.
      x: Features [H, N, F].
      last: Features of the state after them [N, F].

    Returns:
      The four predictions, each float32 [N, H+1], and what the first layer of the critic made of
      the features [H, N, U].
    """

    def predict(x: jax.Array) -> tuple[tuple[jax.Array, ...], jax.Array]:
        dims = x.ndim - 1
        first = model.val.first(x, dims)
        outputs = model.rew(x, dims), model.val(x, dims, first), model.slowval(x, dims)
        reward, value, slow = (output.pred() for output in outputs)
        return (reward, model.con(x, dims).prob(1), value, slow), first

    parts = _parts(model, x)
    _, (before, first) = nj.scan(lambda _, part: (None, predict(part)), None, parts)
    pairs = zip(before, predict(last)[0], strict=True)
    predictions = [jnp.concatenate([y.reshape((-1, *z.shape)), z[None]]).T for y, z in pairs]
    return predictions, first.reshape((*x.shape[:2], -1))


def _targets(model: Dreamer, training: bool, *predictions: jax.Array) -> ImaginationTargets:
    config = model.config
    return imagination_targets(
        *predictions,
        retnorm=model.retnorm,
        valnorm=model.valnorm,
        advnorm=model.advnorm,
        update=training,
        contdisc=config.contdisc,
        horizon=config.horizon,
        slowtar=config.imag_loss.slowtar,
        lam=config.imag_loss.lam,
    )


def _losses(model: Dreamer, inputs: dict[str, tuple[Any, ...]]) -> tuple[Arrays, Arrays]:
    """Average losses over the steps.

    Args:
      model: The agent.
      inputs: Arguments of the losses `policy` and `value` below, arrays [H, N, ...].

    Returns:
      The losses [N], and metrics.
    """
    options = model.config.imag_loss

    def policy(
        x: jax.Array, first: jax.Array, action: Arrays, advantage: jax.Array, weight: jax.Array
    ) -> tuple[jax.Array, Arrays]:
        dists = model.pol(x, x.ndim - 1, first)
        return policy_loss(dists, action, advantage, weight, options.actent)

    def value(
        x: jax.Array, first: jax.Array, target: jax.Array, slow: jax.Array, weight: jax.Array
    ) -> tuple[jax.Array, Arrays]:
        dist = model.val(x, x.ndim - 1, first)
        return value_loss(dist, target, slow, weight, options.slowreg), {}

    losses: Arrays = {}
    metrics: Arrays = {}
    for key, loss, head in (("policy", policy, model.pol), ("value", value, model.val)):
        losses[key], values = _mean_over_steps(model, loss, head, inputs[key])
        metrics |= {name: array.mean() for name, array in values.items()}
    return losses, metrics


def _mean_over_steps(
    model: Dreamer,
    loss: Callable[..., tuple[jax.Array, Arrays]],
    head: nj.Module,
    inputs: tuple[Any, ...],
) -> tuple[jax.Array, Arrays]:
    """Average a loss over imagined steps, with the gradient of its mean with respect to a head.

    Args:
      model: The agent.
      loss: Maps inputs to the loss and metrics of each state.
      head: What learns from it.
      inputs: Arrays [H, N, ...], features first.

    Returns:
      The loss averaged over the H steps [N], and metrics.
    """

    def step(inputs: Any) -> tuple[jax.Array, Any]:
        values, metrics = loss(*inputs)
        return values.sum(), (sg(values), metrics)

    steps, starts = inputs[0].shape[:2]
    parts = _parts(model, inputs)
    if model.config.ac_grads:
        # Features learn as well, which takes an ordinary gradient.
        sums, (values, metrics) = nj.scan(lambda _, part: (None, step(part)), None, parts)[1]
        total = sums.sum()
    else:
        total, (values, metrics) = nj.accumulate(step, [head], parts)
    mean = total / (steps * starts)
    # Adds zero, and the gradient that the values lack.
    return values.reshape((steps, starts)).mean(0) + (mean - sg(mean)), metrics


def _parts(model: Dreamer, inputs: Any) -> Any:
    """Cut arrays [H, N, ...] into what heads read at once, along a new first axis or the old one.

    Accelerators are faster with few large operations, where they have the memory.
    """
    return inputs if model.stepwise else jax.tree.map(lambda x: x[None], inputs)
