"""Moving parameters and results between host and devices."""

import re
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

SHOWN = 5


def from_device(tree: Any) -> Any:
    """Wait for a tree of device arrays and return copies of them on the host.

    The copies stay valid when the device buffers are reused.
    """
    return jax.tree.map(lambda x: np.array(x), jax.device_get(tree))


def policy_params(params: Mapping[str, Any], pattern: str) -> dict[str, Any]:
    """Select the parameters that the policy reads, whose path matches `pattern`."""
    return {path: value for path, value in params.items() if re.search(pattern, path)}


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
