"""Looks whether losses and gradients are finite, and keeps a model from those that are not."""

import logging
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from embodied.core.nonfinite import NonFiniteError

_LOG = logging.getLogger(__name__)
LONGEST_ROW = 100


class Guard:
    """Checks the metrics of every update that name a loss or the norm of the gradient.

    These are small and computed anyway, and they are looked at when they have arrived on the host,
    one call late. With `stop` that is an error, before anything of the update is saved. With
    `skip` the compiled step itself takes the update back, which is counted and reported.

    Attributes:
      skips: Whether bad updates are left out.
      skipped: Number of updates that were left out, those before a restart included.
    """

    def __init__(self, mode: str) -> None:
        """Create the guard.

        Args:
          mode: `stop` or `skip`.

        Raises:
          ValueError: If it is neither.
        """
        if mode not in ("stop", "skip"):
            raise ValueError(f"Got run.nonfinite '{mode}', expected stop or skip.")
        self.skips = mode == "skip"
        self.skipped = 0
        self._row = 0
        self._batch: Mapping[str, Any] = {}

    def select(self, metrics: Mapping[str, jax.Array], new: Any, old: Any) -> Any:
        """Return the tree `new` if the update is finite, else `old`; part of the compiled step."""
        names = watched(metrics)
        if not names:
            return new
        finite = jnp.stack([jnp.isfinite(metrics[key]).all() for key in names]).all()
        return jax.tree.map(lambda x, y: jnp.where(finite, x, y), new, old)

    def remember(self, batch: Mapping[str, Any]) -> None:
        """Keep the batch that the next `check` is about."""
        self._batch = batch

    def check(self, update: int, metrics: Mapping[str, np.ndarray]) -> bool:
        """Tell whether the results of an update, on the host, can be used.

        Raises:
          NonFiniteError: If not and the run has to stop, because of the mode or because nothing
            but bad updates comes.
        """
        names = [key for key in watched(metrics) if not np.isfinite(metrics[key]).all()]
        if not names:
            self._row = 0
            return True
        if not self.skips:
            raise self.error(
                update, names, "--run.nonfinite skip leaves such updates out; see also --jax.debug."
            )
        self.skipped += 1
        self._row += 1
        if self._row >= LONGEST_ROW:
            hint = f"The {LONGEST_ROW - 1} updates before it were skipped for that, too."
            raise self.error(update, names, hint)
        if self.skipped & (self.skipped - 1) == 0:  # Ever more rarely.
            _LOG.warning(
                "Update %d is skipped because of %s, as number %d.",
                update,
                ", ".join(names),
                self.skipped,
            )
        return False

    def error(self, update: int, names: list[str], hint: str) -> NonFiniteError:
        """Make the error for an update on the batch that is remembered."""
        batch = {key: np.asarray(value) for key, value in self._batch.items()}
        return NonFiniteError(update, names, batch, hint)


def watched(metrics: Mapping[str, Any]) -> list[str]:
    """Names of the metrics to check: terms of the loss, its sum, and the gradient's norm."""
    names = [key for key in metrics if key.startswith("loss/")]
    names += [key for key in metrics if key.endswith("/loss")]
    # With a scaled loss, gradients that overflow are what the scale is adapted to.
    if not any(key.endswith("/grad_scale") for key in metrics):
        names += [key for key in metrics if key.endswith("/grad_norm")]
    return names
