"""A stack of equal layers that is compiled once."""

from collections.abc import Callable
from typing import Any

import jax

from embodied.jax import nj


class LayerScan(nj.Module):
    """Apply `count` layers of one kind, one after the other, with a scan over their parameters.

    The same as a Python loop over separate layers, but tracing and compilation take the time of
    one. Parameters: those of one layer under `layer/`, each with a leading axis of `count`. A
    layer may read modules outside of it, but none may write state.

    Attributes:
      unroll: Number of layers per step of the compiled loop.
    """

    unroll: int = 1

    def __init__(
        self, make: Callable[..., nj.Module], count: int, *args: Any, **kwargs: Any
    ) -> None:
        """Set the layer as `make(*args, **kwargs)` and the number of layers.

        Raises:
          ValueError: for a count below one.
        """
        if count < 1:
            raise ValueError(f"LayerScan '{self.path}' got {count} layers, expected at least one.")
        self.count = count
        self._make = lambda: self.sub("layer", make, *args, **kwargs)

    def __call__(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Map a tree x through all layers, each called as `layer(x, *args, **kwargs)`.

        Raises:
          TypeError: from JAX, if the layer changes the structure, shapes or dtypes of x.
          ValueError: if the stored parameters are for another number of layers.
        """
        layer: Any = self._make()
        call = lambda x: layer(x, *args, **kwargs)  # noqa: E731
        stacked = self._stacked(layer, call, x)

        def step(x: Any, params: dict[str, jax.Array]) -> tuple[Any, None]:
            context = nj.context()
            seed = None if context.key is None else nj.seed()
            state = {**context.state, **params}
            _, x = nj.pure(call)(state, x, seed=seed, create=False, modify=False)
            return x, None

        return nj.scan(step, x, stacked, length=self.count, unroll=self.unroll)[0]

    def _stacked(self, layer: Any, call: Callable[[Any], Any], x: Any) -> dict[str, jax.Array]:
        """Return the parameters of all layers, created one by one with keys of their own."""
        prefix, state = f"{layer.path}/", nj.context().state
        if nj.creating() and not any(path.startswith(prefix) for path in state):
            self._create(prefix, call, x)
        own = {path: value for path, value in state.items() if path.startswith(prefix)}
        for path, value in own.items():
            if value.shape[:1] != (self.count,):
                raise ValueError(
                    f"LayerScan '{self.path}' has {self.count} layers, but the stored '{path}' has "
                    f"shape {tuple(value.shape)}; pass the number it was created with."
                )
        return own

    def _create(self, prefix: str, call: Callable[[Any], Any], x: Any) -> None:
        """Create what the layers need: stacked under `prefix`, and what lies outside of them."""
        context = nj.context()
        for path, value in nj.init(call)(context.state, x, seed=nj.seed()).items():
            if not path.startswith(prefix) and path not in context.state:
                context.add(path, value)
        outside = dict(context.state)

        def create(seed: jax.Array) -> dict[str, jax.Array]:
            state = nj.init(call)(outside, x, seed=seed)
            return {path: value for path, value in state.items() if path.startswith(prefix)}

        stacked = jax.vmap(create)(jax.random.split(nj.seed(), self.count))
        for path, value in stacked.items():
            context.add(path, value)
