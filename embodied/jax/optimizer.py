"""The optimizer as a module: differentiates a loss and updates the parameters of modules."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from embodied.jax import nj
from embodied.jax.loss_scale import LossScale
from embodied.jax.optimizer_transforms import Params, norm, optimizer_chain


class Optimizer(nj.Module):
    """Minimizes losses with respect to the parameters of some modules (spec rows 4.3 to 4.9).

    The hyper-parameters are those of `optimizer_chain`. State: ``step/value`` counts the updates
    that were made, ``state`` holds that of the chain, and with loss scaling ``grad_scale`` and
    ``good_steps`` that of `LossScale`.

    Attributes:
      lr: Learning rate.
      agc: Largest gradient norm of a tensor relative to its parameter norm; 0 is off.
      eps: Added to the root mean square of the gradients.
      beta1: Decay of the momentum.
      beta2: Decay of the mean square.
      guard: Whether gradients too small for their square are left out, see `scale_by_rms`.
      momentum: Whether to smooth the normalized gradients.
      nesterov: Whether the momentum looks one step ahead.
      wd: Weight decay relative to the learning rate; 0 is off.
      wdregex: Search pattern of the paths that are decayed.
      schedule: 'const', 'linear' or 'cosine'.
      warmup: Updates until the full learning rate is reached.
      anneal: Update at which a decaying schedule ends.
      loss_scaling: Whether to scale losses dynamically and skip updates that overflow, which a
        compute dtype of float16 needs.
      modules: The modules whose parameters are updated.
    """

    lr: float = 4e-5
    agc: float = 0.3
    eps: float = 1e-20
    beta1: float = 0.9
    beta2: float = 0.999
    guard: bool = True
    momentum: bool = True
    nesterov: bool = False
    wd: float = 0.0
    wdregex: str = r"/kernel$"
    schedule: str = "const"
    warmup: int = 1000
    anneal: int = 0
    loss_scaling: bool = False

    def __init__(self, modules: nj.Module | Sequence[nj.Module]) -> None:
        """Set the modules; the optimizer does not own them."""
        self.modules = [modules] if isinstance(modules, nj.Module) else list(modules)
        options = {key: getattr(self, key) for key in type(self)._fields if key != "loss_scaling"}
        self._chain = optimizer_chain(**options)

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
        updates, new = self._chain.update(grads, old, params)
        metrics: dict[str, Array] = {}
        counted: Any = 1
        if scaling:
            finite, metrics = scaling.update(grads)
            keep = lambda new, old: jnp.where(finite, new, old)  # noqa: E731
            updates = jax.tree.map(lambda update: keep(update, 0.0), updates)
            new = jax.tree.map(keep, new, old)
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
        return self._chain.init({key: jnp.zeros(*shape) for key, shape in shapes.items()})

    def _check(self, loss: Any) -> None:
        if jnp.shape(loss) != () or jnp.asarray(loss).dtype != jnp.float32:
            raise TypeError(
                f"Got a loss of shape {jnp.shape(loss)} and type {jnp.asarray(loss).dtype} for "
                f"the optimizer '{self.path}', expected a float32 scalar."
            )
