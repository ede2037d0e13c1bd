"""Steps of the optimizer as pure gradient transformations, and the chain that they form.

All of them map a flat dictionary of float32 gradients to one of updates. Their states are plain
tuples, so that in a checkpoint the parts are named by position, as in the public code.
"""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

Params = dict[str, Array]

_SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)


def optimizer_chain(
    lr: float = 4e-5,
    agc: float = 0.3,
    eps: float = 1e-20,
    beta1: float = 0.9,
    beta2: float = 0.999,
    guard: bool = True,
    momentum: bool = True,
    nesterov: bool = False,
    wd: float = 0.0,
    wdregex: str = r"/kernel$",
    schedule: str = "const",
    warmup: int = 1000,
    anneal: int = 0,
) -> optax.GradientTransformation:
    """Return the optimizer of the paper: clipping, LaProp and learning rate (spec row 4.3).

    Gradients are clipped tensor by tensor, divided by their root mean square, smoothed, decayed
    and scaled, in this order. A step that is off keeps its position in the state.

    Args:
      lr: Learning rate.
      agc: Largest gradient norm of a tensor relative to its parameter norm; 0 is off.
      eps: Added to the root mean square.
      beta1: Decay of the momentum.
      beta2: Decay of the mean square.
      guard: Whether gradients too small for their square are left out, see `scale_by_rms`.
      momentum: Whether to smooth the normalized gradients.
      nesterov: Whether the momentum looks one step ahead.
      wd: Weight decay relative to the learning rate; 0 is off.
      wdregex: Search pattern of the paths that are decayed.
      schedule: See `learning_rate`, like `warmup` and `anneal`.
      warmup: Updates until the full learning rate is reached.
      anneal: Update at which a decaying schedule ends.
    """
    steps = [
        clip_by_agc(agc) if agc else optax.identity(),
        scale_by_rms(beta2, eps, guard),
        scale_by_momentum(beta1, nesterov) if momentum else optax.identity(),
    ]
    if wd:
        decayed = lambda params: {k: bool(re.search(wdregex, k)) for k in params}  # noqa: E731
        steps.append(optax.add_decayed_weights(wd, decayed))
    steps.append(optax.scale_by_learning_rate(learning_rate(lr, schedule, warmup, anneal)))
    return optax.chain(*steps)


def clip_by_agc(clip: float = 0.3, pmin: float = 1e-3) -> optax.GradientTransformation:
    """Limit the gradient norm of each tensor to a share of its parameter norm (spec row 4.4).

    Args:
      clip: Largest gradient norm relative to the parameter norm.
      pmin: Smallest parameter norm to compare with, which lets zero tensors move.
    """

    def update(grads: Params, state: Any, params: Params | None = None) -> tuple[Params, Any]:
        if params is None:
            raise ValueError("Got no parameters, which adaptive clipping compares with.")

        def limit(grad: Array, param: Array) -> Array:
            upper = clip * jnp.maximum(pmin, norm(param))
            return grad / jnp.maximum(1.0, norm(grad) / upper)

        return {key: limit(grad, params[key]) for key, grad in grads.items()}, state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def scale_by_rms(
    beta: float = 0.999, eps: float = 1e-20, guard: bool = True
) -> optax.GradientTransformation:
    """Divide gradients by the debiased root of their mean square (spec row 4.5).

    Args:
      beta: Decay of the mean square.
      eps: Added after the root.
      guard: Whether an element is left alone whose mean square is below the normal range of
        float32. The square of a gradient below 3e-18 vanishes, so that the public code divides it
        by `eps` alone, which may move the parameter by hundreds of learning rates at once.

    State: ``(step, mean squares)``.
    """

    def init(params: Params) -> tuple[Array, Params]:
        return jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, params)

    def update(
        grads: Params, state: tuple[Array, Params], params: Params | None = None
    ) -> tuple[Params, tuple[Array, Params]]:
        step, squares = state[0] + 1, state[1]
        squares = {
            key: beta * squares[key] + (1 - beta) * jnp.square(grad) for key, grad in grads.items()
        }
        debias = 1 - beta**step

        def divide(grad: Array, square: Array) -> Array:
            scaled = grad / (jnp.sqrt(square / debias) + eps)
            return jnp.where(square >= _SMALLEST_NORMAL, scaled, 0.0) if guard else scaled

        updates = {key: divide(grad, squares[key]) for key, grad in grads.items()}
        return updates, (step, squares)

    return optax.GradientTransformation(init, update)


def scale_by_momentum(beta: float = 0.9, nesterov: bool = False) -> optax.GradientTransformation:
    """Smooth updates by a debiased moving average (spec row 4.6).

    Args:
      beta: Decay of the average.
      nesterov: Whether to add the current update once more, as if one step ahead.

    State: ``(step, averages)``.
    """

    def init(params: Params) -> tuple[Array, Params]:
        return jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, params)

    def update(
        updates: Params, state: tuple[Array, Params], params: Params | None = None
    ) -> tuple[Params, tuple[Array, Params]]:
        step, average = state[0] + 1, state[1]
        blend = lambda old, new: beta * old + (1 - beta) * new  # noqa: E731
        average = {key: blend(average[key], value) for key, value in updates.items()}
        ahead = average
        if nesterov:
            ahead = {key: blend(average[key], value) for key, value in updates.items()}
        debias = 1 - beta**step
        return {key: value / debias for key, value in ahead.items()}, (step, average)

    return optax.GradientTransformation(init, update)


def learning_rate(
    lr: float, schedule: str = "const", warmup: int = 1000, anneal: int = 0
) -> optax.Schedule:
    """Return the learning rate as a function of the number of updates before (spec row 4.7).

    The cosine schedule goes down to ``0.1 * lr ** 2``, practically zero, rather than to a tenth:
    the public code gives ``0.1 * lr`` where a share is expected, and recordings of it decide.

    Args:
      lr: Learning rate after the warmup.
      schedule: 'const', 'linear' to go down to a tenth, or 'cosine' to go down as told above.
      warmup: Updates over which the rate rises linearly from zero.
      anneal: Update at which 'linear' and 'cosine' arrive; has to be after the warmup.

    Raises:
      ValueError: The schedule does not exist or has no time to decay.
    """
    if schedule not in ("const", "linear", "cosine"):
        raise ValueError(f"Got the schedule '{schedule}', expected const, linear or cosine.")
    if schedule != "const" and anneal <= warmup:
        raise ValueError(
            f"Got anneal={anneal} and warmup={warmup} for the schedule '{schedule}', expected "
            f"annealing to end after the warmup."
        )
    if schedule == "const":
        main = optax.constant_schedule(lr)
    elif schedule == "linear":
        main = optax.linear_schedule(lr, 0.1 * lr, anneal - warmup)
    else:
        main = optax.cosine_decay_schedule(lr, anneal - warmup, alpha=0.1 * lr)
    if not warmup:
        return main
    return optax.join_schedules([optax.linear_schedule(0.0, lr, warmup), main], [warmup])


def norm(*arrays: Array) -> Array:
    """Return the Euclidean norm over all elements of all arrays, float32 scalar."""
    return jnp.sqrt(sum((jnp.sum(jnp.square(x)) for x in arrays), jnp.float32(0)))
