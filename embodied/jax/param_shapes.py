"""Shapes of the parameters of a model, without computing anything."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from embodied.core.config import Config
from embodied.core.space import Space
from embodied.jax import nj


def param_shapes(
    model: Callable[..., Any],
    obs_space: Mapping[str, Space],
    act_space: Mapping[str, Space],
    config: Config,
) -> dict[str, tuple[int, ...]]:
    """Trace a training step to find all state of a model, which takes seconds at any size.

    Args:
      model: See `embodied.jax.agent.JaxAgent`, like the other arguments.
      obs_space: Spaces of the observations.
      act_space: Spaces of the actions.
      config: Options of the model, batch size and lengths.

    Returns:
      Shape by path, as in the state that the agent saves.
    """
    built = model(dict(obs_space), dict(act_space), config, "float32")
    rows, length = config.batch_size, config.batch_length + config.replay_context
    spaces = {**obs_space, **act_space, **built.ext_space}
    data = {
        key: jax.ShapeDtypeStruct((rows, length, *space.shape), space.dtype)
        for key, space in spaces.items()
    }

    def create(seed: jax.Array, data: Any) -> dict[str, jax.Array]:
        run = lambda data: built.train(built.init_train(rows), data)  # noqa: E731
        return nj.init(run)({}, data, seed=seed)

    shapes = jax.eval_shape(create, jax.ShapeDtypeStruct((2,), np.uint32), data)
    return {path: value.shape for path, value in shapes.items()}
