"""The parameters of a model by path: their creation, their shapes, and how two sets differ."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import Sharding

from embodied.core.config import Config
from embodied.core.interfaces import Batch
from embodied.core.space import Space
from embodied.jax import nj
from embodied.jax.model import Model

Params = dict[str, jax.Array]
SHOWN = 5
#: Paths of the state of `embodied.jax.optimizer.LossScale`.
SCALING = re.compile(r"^opt/(grad_scale|good_steps)/value$")


class Creation:
    """Creates all state that a function of modules uses; it is traced only once.

    Attributes:
      shapes: Shape and dtype of the state by path.
    """

    def __init__(self, fn: Callable[..., Any], *args: Any) -> None:
        """Trace a function, called with arrays of the shapes of `args`."""
        self._args = args
        self._create = jax.jit(lambda key, *args: nj.init(fn)({}, *args, seed=key))
        self.shapes: dict[str, jax.ShapeDtypeStruct] = jax.eval_shape(
            self._create, np.zeros(2, np.uint32), *args
        )

    def __call__(self, key: np.ndarray, layout: Mapping[str, Sharding] | None = None) -> Params:
        """Draw initial values with a random key and lay them out on devices."""
        create = jax.jit(self._create, out_shardings=layout) if layout else self._create
        state: Params = create(key, *self._args)
        return state


def creation_for_training(
    model: Model,
    obs_space: Mapping[str, Space],
    act_space: Mapping[str, Space],
    config: Config,
) -> Creation:
    """Trace one training step, which uses all state of a model, in seconds at any size.

    Args:
      model: The model.
      obs_space: Spaces of the observations.
      act_space: Spaces of the actions.
      config: Has `batch_size`, `batch_length` and `replay_context`.
    """
    rows, length = config.batch_size, config.batch_length + config.replay_context
    data = zeros({**obs_space, **act_space, **model.ext_space}, rows, length)
    return Creation(lambda data: model.train(model.init_train(rows), data), data)


def creation_for_acting(model: Model, obs_space: Mapping[str, Space]) -> Creation:
    """Trace one step of the policy, which uses less than training does."""
    act = lambda obs: model.policy(model.init_policy(1), obs)  # noqa: E731
    return Creation(act, zeros(obs_space, 1))


def param_shapes(
    model: Callable[..., Model],
    obs_space: Mapping[str, Space],
    act_space: Mapping[str, Space],
    config: Config,
) -> dict[str, tuple[int, ...]]:
    """Find the shapes of all state of a model by path, without computing anything.

    Arguments are those of `JaxAgent`; the paths are those of the state that it saves.
    """
    built = model(dict(obs_space), dict(act_space), config, "float32")
    shapes = creation_for_training(built, obs_space, act_space, config).shapes
    return {path: value.shape for path, value in shapes.items()}


def placed(
    shapes: Mapping[str, jax.ShapeDtypeStruct], layout: Mapping[str, Sharding]
) -> dict[str, jax.ShapeDtypeStruct]:
    """Say of shapes by path where the arrays lie, for compilation."""
    return {
        path: jax.ShapeDtypeStruct(shape.shape, shape.dtype, sharding=layout[path])
        for path, shape in shapes.items()
    }


def zeros(spaces: Mapping[str, Space], *batch: int) -> Batch:
    """Make arrays of zeros [*batch, ...] for each space."""
    return {key: np.zeros((*batch, *space.shape), space.dtype) for key, space in spaces.items()}


def with_own_scaling(loaded: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Loaded state with the factor on the loss that only runs in float16 have.

    Where only one of the two has a factor, it is dropped or begins anew.
    """
    begun = {path: value for path, value in own.items() if SCALING.search(path)}
    kept = {
        path: value for path, value in loaded.items() if path in begun or not SCALING.search(path)
    }
    return begun | kept


def param_difference(expected: Mapping[str, Any], got: Mapping[str, Any]) -> str:
    """Say how two sets of parameters differ in names and shapes; empty if they agree."""
    lines = []
    for path in sorted(expected.keys() | got.keys()):
        shapes = [
            list(np.shape(params[path])) if path in params else "nothing"
            for params in (got, expected)
        ]
        if shapes[0] != shapes[1]:
            lines.append(f"'{path}' is {shapes[0]}, expected {shapes[1]}")
    more = f" and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
    return "; ".join(lines[:SHOWN]) + more
