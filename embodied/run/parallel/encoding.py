"""Turns nested values and arrays into bytes and back. Nothing in them runs code when it is read."""

import json
import math
import struct
from typing import Any

import numpy as np

from embodied.core.state_tree import dtype_from_name, dtype_name, flatten, unflatten

_LENGTH = struct.Struct("<Q")


def pack(value: Any) -> list[bytes | memoryview]:
    """Turn nested dicts, lists, tuples, plain values and arrays into parts of a message.

    Those are the length of a JSON text, the text, and the content of each array.

    Raises:
      TypeError: If there is anything else in the value.
    """
    flat = flatten(value)
    specs = [[dtype_name(array.dtype), list(array.shape)] for array in flat.arrays]
    text = json.dumps([flat.tree, specs]).encode()
    content = [array.reshape(-1).view(np.uint8).data for array in flat.arrays if array.nbytes]
    return [_LENGTH.pack(len(text)), text, *content]


def unpack(message: memoryview) -> Any:
    """The inverse of `pack`, given its parts joined; arrays are in their memory, to be written to.

    Raises:
      Exception: Of any kind, if `pack` did not make the message.
    """
    start = _LENGTH.size + _LENGTH.unpack_from(message)[0]
    tree, specs = json.loads(bytes(message[_LENGTH.size : start]))
    arrays = []
    for name, shape in specs:
        dtype, count = dtype_from_name(name), math.prod(shape)
        array = np.frombuffer(message, dtype, count, start) if count else np.empty(0, dtype)
        arrays.append(array.reshape(shape))
        start += array.nbytes
    return unflatten(tree, arrays)
