"""Metrics of the updates of a chunk: summed on the device, read and checked on the host."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from embodied.core.nonfinite import NonFiniteError
from embodied.jax.guard import LONGEST_ROW, watched

Metrics = Mapping[str, Any]


class UpdateLog(NamedTuple):
    """What a chunk remembers of its updates.

    Attributes:
      sums: Sums of the scalar metrics over finite updates.
      count: Number of these.
      skipped: Number of the others.
      row: Those that are not finite and that nothing finite has followed.
      bad_update: Number of the first one that is not finite, 0 for none.
      bad_terms: Which of its watched metrics are not.
    """

    sums: Any
    count: Any
    skipped: Any
    row: Any
    bad_update: Any
    bad_terms: Any


def no_updates(metrics: Metrics) -> UpdateLog:
    """Begin with metrics of these shapes."""
    scalars = [name for name, x in metrics.items() if x.ndim == 0]
    none = jnp.zeros((), jnp.int32)
    terms = jnp.zeros(len(watched(metrics)), bool)
    return UpdateLog({name: jnp.zeros(()) for name in scalars}, none, none, none, none, terms)


def finite_terms(metrics: Metrics) -> jax.Array:
    """Which of the watched metrics are finite, bool [K]."""
    names = watched(metrics)
    if not names:
        return jnp.zeros(0, bool)
    return jnp.stack([jnp.isfinite(metrics[name]).all() for name in names])


def count_update(log: UpdateLog, update: jax.Array, metrics: Metrics) -> UpdateLog:
    """Add the metrics of an update of this number, counted from 1."""
    terms = finite_terms(metrics)
    finite = terms.all()
    first = ~finite & (log.bad_update == 0)
    return UpdateLog(
        sums={
            name: total + jnp.where(finite, metrics[name].astype(jnp.float32), 0)
            for name, total in log.sums.items()
        },
        count=log.count + finite,
        skipped=log.skipped + ~finite,
        row=jnp.where(finite, 0, log.row + 1),
        bad_update=jnp.where(first, update, log.bad_update),
        bad_terms=jnp.where(first, ~terms, log.bad_terms),
    )


class ChunkGuard:
    """Looks at the updates of the chunks of one seed, as `Guard` does at single ones.

    Attributes:
      skipped: Number of updates that were left out, those before a restart included.
    """

    def __init__(self, mode: str, names: Sequence[str], hint: str) -> None:
        """Create the guard.

        Args:
          mode: `stop` or `skip`.
          names: Of the watched metrics.
          hint: What an error says besides.
        """
        self.skipped = 0
        self._mode, self._names, self._hint = mode, names, hint
        self._row = 0

    def check(self, log: UpdateLog) -> None:
        """Take in what a chunk remembers, on the host.

        Raises:
          NonFiniteError: If an update was not finite and the run has to stop, because of the mode
            or because nothing but bad updates comes.
        """
        skipped, row = int(log.skipped), int(log.row)
        self.skipped += skipped
        self._row = row if int(log.count) else self._row + row
        if not skipped or (self._mode == "skip" and self._row < LONGEST_ROW):
            return
        hint = self._hint
        if self._mode == "stop":
            hint += " --run.nonfinite skip leaves such updates out."
        names = [name for name, bad in zip(self._names, log.bad_terms, strict=True) if bad]
        raise NonFiniteError(int(log.bad_update), names, {}, hint)
