"""The optimizer: LaProp with adaptive gradient clipping, as a module that minimizes losses.

Its steps are pure transformations of a flat dictionary of float32 gradients. Their states are plain
tuples, so that in a checkpoint the parts are named by position, as in the public code.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from embodied.jax import nj

Params = dict[str, Array]

#: Search pattern of the paths that decay: neither biases nor scales do.
DECAYED = r"/kernel$"
_SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)

#: The factor on float16 losses: its first value, its range, and the finite steps until it doubles.
FIRST_SCALE = 1e4
SMALLEST_SCALE, LARGEST_SCALE = 1e-4, 1e5
PATIENCE = 1000


class Optimizer(nj.Module):
    """Minimizes losses with respect to the parameters of some modules.

    Gradients are clipped tensor by tensor, divided by their root mean square, smoothed, decayed
    and scaled by the learning rate, in this order; a step that is off keeps its position in the
    state. State: ``step/value`` counts the updates that were made, ``state`` holds that of the
    steps, and with loss scaling ``grad_scale`` and ``good_steps`` that of `LossScale`.

    Attributes:
      lr: Learning rate.
      agc: Largest gradient norm of a tensor relative to its parameter norm; 0 is off.
      eps: Added to the root mean square of the gradients.
      beta1: Decay of the momentum.
      beta2: Decay of the mean square.
      guard: Whether gradients too small for their square are left out, see `scale_by_rms`.
      momentum: Whether to smooth the normalized gradients.
      wd: Weight decay of kernels relative to the learning rate; 0 is off.
      schedule: 'const', 'linear' or 'cosine', see `learning_rate`.
      warmup: Updates until the full learning rate is reached.
      anneal: Update at which a decaying schedule ends.
      loss_scaling: Whether to scale losses dynamically and skip updates that overflow, which a
        compute dtype of float16 needs.
      modules: The modules whose parameters are updated.
      chain: The steps as one gradient transformation.
    """

    lr: float = 4e-5
    agc: float = 0.3
    eps: float = 1e-20
    beta1: float = 0.9
    beta2: float = 0.999
    guard: bool = True
    momentum: bool = True
    wd: float = 0.0
    schedule: str = "const"
    warmup: int = 1000
    anneal: int = 0
    loss_scaling: bool = False

    def __init__(self, modules: nj.Module | Sequence[nj.Module]) -> None:
        """Set the modules; the optimizer does not own them."""
        self.modules = [modules] if isinstance(modules, nj.Module) else list(modules)
        steps = [
            clip_by_agc(self.agc) if self.agc else optax.identity(),
            scale_by_rms(self.beta2, self.eps, self.guard),
            scale_by_momentum(self.beta1) if self.momentum else optax.identity(),
        ]
        if self.wd:
            decayed = lambda params: {k: bool(re.search(DECAYED, k)) for k in params}  # noqa: E731
            steps.append(optax.add_decayed_weights(self.wd, decayed))
        rate = learning_rate(self.lr, self.schedule, self.warmup, self.anneal)
        self.chain = optax.chain(*steps, optax.scale_by_learning_rate(rate))

    def __call__(
        self, lossfn: Callable[..., Any], *args: Any, has_aux: bool = False, **kwargs: Any
    ) -> Any:
        """Take one step.

        Args:
          lossfn: Called with the other arguments; returns the loss as float32 scalar, and with
            `has_aux` an auxiliary output.
          *args: Arguments of the loss.
          has_aux: Whether the loss function has an auxiliary output.
          **kwargs: Keyword arguments of the loss.

        Returns:
          Metrics, float32 scalars named ``<name of the optimizer>/...``, and with `has_aux` the
          auxiliary output. Norms and root mean squares run over all parameters; gradients are
          measured before clipping, parameters after the update.

        Raises:
          TypeError: The loss is not a float32 scalar.
        """
        scaling = self.sub("scaling", LossScale, self.path) if self.loss_scaling else None
        scale = scaling.read() if scaling else None

        def scaled(*args: Any, **kwargs: Any) -> tuple[Array, tuple[Array, Any]]:
            loss, aux = lossfn(*args, **kwargs) if has_aux else (lossfn(*args, **kwargs), None)
            self._check(loss)
            return loss if scale is None else loss * scale, (loss, aux)

        _, params, grads, (loss, aux) = nj.grad(scaled, self.modules, True)(*args, **kwargs)
        if scale is not None:
            grads = {key: grad / scale for key, grad in grads.items()}
        metrics = {"loss": loss, **self._update(params, grads, scaling)}
        metrics = {f"{self.name}/{key}": value for key, value in metrics.items()}
        return (metrics, aux) if has_aux else metrics

    def _update(self, params: Params, grads: Params, scaling: LossScale | None) -> dict[str, Array]:
        """Apply gradients; return metrics."""
        step = self.sub("step", nj.Variable, jnp.zeros, (), jnp.int32)
        shapes = {key: (value.shape, value.dtype) for key, value in params.items()}
        tree = self.sub("state", nj.Tree, lambda: self._init(shapes))
        old = tree.read()
        updates, new = self.chain.update(grads, old, params)
        metrics: dict[str, Array] = {}
        counted: Any = 1
        if scaling:
            finite, metrics = scaling.update(grads)
            updates, new = jax.tree.map(
                lambda new, old: jnp.where(finite, new, old),
                (updates, new),
                (jax.tree.map(jnp.zeros_like, updates), old),
            )
            counted = finite.astype(jnp.int32)
        changed = {key: param + updates[key] for key, param in params.items()}
        tree.write(new)
        self.put(changed)
        count = sum(math.prod(shape) for shape, _ in shapes.values())
        grad_norm = norm(*grads.values())
        metrics |= {
            "updates": step.write(step.read() + counted),
            "grad_norm": grad_norm,
            "grad_rms": grad_norm / math.sqrt(count),
            "update_rms": norm(*updates.values()) / math.sqrt(count),
            "param_rms": norm(*changed.values()) / math.sqrt(count),
            "param_count": jnp.float32(count),
        }
        return metrics

    def _init(self, shapes: dict[str, Any]) -> Any:
        """Make the state of the chain for parameters of these shapes and dtypes."""
        return self.chain.init({key: jnp.zeros(*shape) for key, shape in shapes.items()})

    def _check(self, loss: Any) -> None:
        if jnp.shape(loss) != () or jnp.asarray(loss).dtype != jnp.float32:
            raise TypeError(
                f"Got a loss of shape {jnp.shape(loss)} and type {jnp.asarray(loss).dtype} for "
                f"the optimizer '{self.path}', expected a float32 scalar."
            )


def clip_by_agc(clip: float, pmin: float = 1e-3) -> optax.GradientTransformation:
    """Limit the gradient norm of each tensor to a share of its parameter norm.

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


def scale_by_rms(beta: float, eps: float, guard: bool = True) -> optax.GradientTransformation:
    """Divide gradients by the debiased root of their mean square.

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


def scale_by_momentum(beta: float) -> optax.GradientTransformation:
    """Smooth updates by a debiased moving average.

    Args:
      beta: Decay of the average.

    State: ``(step, averages)``.
    """

    def init(params: Params) -> tuple[Array, Params]:
        return jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, params)

    def update(
        updates: Params, state: tuple[Array, Params], params: Params | None = None
    ) -> tuple[Params, tuple[Array, Params]]:
        step, average = state[0] + 1, state[1]
        average = {k: beta * average[k] + (1 - beta) * value for k, value in updates.items()}
        debias = 1 - beta**step
        return {key: value / debias for key, value in average.items()}, (step, average)

    return optax.GradientTransformation(init, update)


def learning_rate(lr: float, schedule: str, warmup: int, anneal: int = 0) -> optax.Schedule:
    """Return the learning rate as a function of the number of updates before.

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


class LossScale(nj.Module):
    """The factor that keeps float16 gradients in range.

    It doubles after a thousand finite steps in a row and is halved by every other step, which
    has to be skipped. State: ``grad_scale/value`` and ``good_steps/value`` below `owner`.
    """

    def __init__(self, owner: str) -> None:
        """Set the path that the state is stored below."""
        with nj.scope(owner, absolute=True):
            self._scale = nj.Variable(lambda: jnp.float32(FIRST_SCALE), name="grad_scale")
            self._good = nj.Variable(jnp.zeros, (), jnp.int32, name="good_steps")

    def read(self) -> Array:
        """Return the factor to multiply the loss with, float32 scalar."""
        return self._scale.read()

    def update(self, grads: dict[str, Array]) -> tuple[Array, dict[str, Array]]:
        """Adapt the factor to the gradients.

        Returns:
          Whether all gradients are finite, and metrics.
        """
        finite = jnp.stack([jnp.isfinite(grad).all() for grad in jax.tree.leaves(grads)]).all()
        good = jnp.where(finite, self._good.read() + 1, 0)
        grow = good >= PATIENCE
        factor = jnp.where(finite, jnp.where(grow, 2.0, 1.0), 0.5)
        self._good.write(jnp.where(grow, 0, good))
        scale = self._scale.write(
            jnp.clip(self._scale.read() * factor, SMALLEST_SCALE, LARGEST_SCALE)
        )
        return finite, {"grad_scale": scale, "grad_overflow": 1.0 - finite.astype(jnp.float32)}
