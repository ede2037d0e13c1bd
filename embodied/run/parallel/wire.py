"""Messages between processes: nested values and arrays, nothing that runs code when it is read."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from embodied.core.checkpoint_tree import dtype_from_name, dtype_name, flatten, unflatten


def pack(value: Any) -> list[Any]:
    """Turn nested dicts, lists, tuples, plain values and arrays into bytes.

    Returns:
      A description as JSON, and the bytes of each array that is not empty.

    Raises:
      TypeError: If there is anything else in the value.
    """
    flat = flatten(value)
    specs = [[dtype_name(x.dtype), list(x.shape)] for x in flat.arrays]
    content = [x.reshape(-1).view(np.uint8) for x in flat.arrays if x.nbytes]
    return [json.dumps([flat.tree, specs]).encode(), *content]


def unpack(header: bytes, content: Sequence[np.ndarray]) -> Any:
    """The inverse of `pack`, on its description and its arrays."""
    tree, specs = json.loads(header)
    rest, arrays = iter(content), []
    for name, shape in specs:
        dtype = dtype_from_name(name)
        array = next(rest).view(dtype) if np.prod(shape) else np.empty(0, dtype)
        arrays.append(array.reshape(shape))
    return unflatten(tree, arrays)
