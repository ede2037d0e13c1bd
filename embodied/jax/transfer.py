"""Moving parameters and results between host and devices."""

import re
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

SHOWN = 5


def from_device(tree: Any) -> Any:
    """Wait for a tree of device arrays and return copies of them on the host.

    The copies stay valid when the device buffers are reused. Of a batch that several processes have
    parts of, these are the rows of this process.
    """
    return jax.tree.map(lambda x: np.array(x), jax.device_get(jax.tree.map(own_part, tree)))


def own_part(value: Any) -> Any:
    """What this process has of an array that several processes share: all, or its rows."""
    if not isinstance(value, jax.Array) or value.is_fully_addressable:
        return value
    if value.is_fully_replicated:
        return value.addressable_data(0)
    shards = {shard.index[0].start or 0: shard.data for shard in value.addressable_shards}
    return np.concatenate([np.asarray(shards[start]) for start in sorted(shards)])


def policy_params(params: Mapping[str, Any], pattern: str) -> dict[str, Any]:
    """Select the parameters that the policy reads, whose path matches `pattern`."""
    return {path: value for path, value in params.items() if re.search(pattern, path)}


def random_seed(*numbers: int) -> np.ndarray:
    """Draw a random key, uint32 [2], that depends on nothing but the given numbers (row 6.5)."""
    return np.random.default_rng(numbers).integers(0, 2**32, 2, np.uint32)


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
