"""A slowly moving copy of a module."""

from typing import Any

import jax.numpy as jnp

from embodied.jax import nj


class SlowModel:
    """Calls a model whose parameters follow those of another one (paper, critic learning).

    The parameters start as a copy of the source's and have the paths of the model itself; the
    number of updates is stored as ``<path of the model>_count/value``.
    """

    def __init__(
        self,
        model: Any,
        *,
        source: Any,
        rate: float = 0.02,
        every: int = 1,
        copy_first: bool = False,
    ) -> None:
        """Set the models and the pace.

        Args:
          model: Module to call; it must have the same parameters as the source.
          source: Module to follow.
          rate: Share of the source's parameters in a change; 1 copies them.
          every: Number of updates from one change to the next.
          copy_first: Whether the first update is a copy, as in the code of the paper's
            experiments, where the two models were initialized apart.

        Raises:
          ValueError: `rate` or `every` is out of range.
        """
        if not 0 <= rate <= 1 or every < 1:
            raise ValueError(
                f"Got rate={rate} and every={every} for a slow model, expected a rate from 0 to "
                f"1 and a positive number of updates."
            )
        self.model = model
        self.source = source
        self._rate = rate
        self._every = every
        self._copy_first = copy_first
        with nj.scope("", absolute=True):
            self._count = nj.Variable(jnp.zeros, (), jnp.int32, name=f"{model.path}_count")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model; where state may be created, copy the source's parameters first."""
        if nj.creating():
            self._copy(*args, **kwargs)
        return self.model(*args, **kwargs)

    def update(self) -> None:
        """Move the parameters towards those of the source, once per step of the optimizer."""
        count = self._count.read()
        due = count % self._every == 0
        mix: Any = self._rate if self._every == 1 else jnp.where(due, self._rate, 0.0)
        if self._copy_first:
            mix = jnp.where(count == 0, 1.0, mix)
        slow = self.model.values
        self.model.put(
            {
                path: mix * value + (1 - mix) * slow[path]
                for path, value in self._source_values().items()
            }
        )
        self._count.write(count + 1)

    def _source_values(self) -> dict[str, Any]:
        """Parameters of the source by the path that they have in the model."""
        cut = len(self.source.path)
        return {self.model.path + path[cut:]: v for path, v in self.source.values.items()}

    def _copy(self, *args: Any, **kwargs: Any) -> None:
        if not self.source.values:
            self.source(*args, **kwargs)
        context = nj.context()
        for path, value in self._source_values().items():
            if path not in context.state:
                context.add(path, value)
        self._count.read()
