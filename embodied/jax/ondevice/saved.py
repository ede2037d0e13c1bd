"""The state of a seed as checkpoints hold it."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from embodied.core.config import ConfigError
from embodied.core.space import Space
from embodied.jax import ring
from embodied.jax.ondevice.state import SeedState
from embodied.jax.params import param_difference

State = dict[str, Any]


def saved_seed(
    shape: ring.Shape, state: SeedState, position: list[int], counters: dict[str, int]
) -> State:
    """Lay out what a seed needs to continue.

    Args:
      shape: Sizes of the replay, of which only the positions that are there are kept.
      state: The state, on the host.
      position: The fields of `Position`.
      counters: What an agent counts, see `JaxAgent.save`.

    Returns:
      `agent`, as any agent saves it, and `ondevice`, the rest.
    """
    rows = ring.present(shape, state.ring, position[0])
    leaves = [np.asarray(x) for x in jax.tree.leaves(state.rest)]
    return {
        "agent": {"params": state.params, "counters": counters, "pending": None},
        "ondevice": {"position": position, "ring": rows, "leaves": leaves},
    }


def loaded_seed(
    shape: ring.Shape, spaces: Mapping[str, Space], begun: SeedState, saved: Mapping[str, Any]
) -> SeedState:
    """Read what `saved_seed` has returned, perhaps for another capacity.

    Args:
      shape: Sizes of the replay here.
      spaces: Of all that is stored.
      begun: What the seed begins with; only shapes matter, and the random keys.
      saved: The saved state.

    Raises:
      ConfigError: It was saved with another agent, other environments or another number of them.
    """
    rest, rows = saved["ondevice"]["leaves"], saved["ondevice"]["ring"]
    expected = jax.tree.leaves(begun.rest)
    difference = param_difference(begun.params, saved["agent"]["params"])
    stored = {key: (shape.worlds, *x.shape) for key, x in spaces.items()}
    if {key: (len(x), *x.shape[2:]) for key, x in rows.items()} != stored:
        difference = difference or "stored steps have other keys, shapes or environments"
    if [np.shape(x) for x in rest] != [x.shape for x in expected]:
        difference = difference or "the environments have another state or number"
    if difference:
        raise ConfigError(
            f"The checkpoint does not fit: {difference}; use the options that it was made with, "
            "or start in a new folder."
        )
    restored: SeedState = jax.tree.unflatten(jax.tree.structure(begun.rest), rest)
    return restored._replace(
        params=saved["agent"]["params"],
        ring=ring.restored(shape, spaces, rows, saved["ondevice"]["position"][0]),
        keys=begun.keys,
    )
