"""Splits states into a JSON tree and a list of arrays, and puts them together again."""

import base64
import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

_ARRAY_KINDS = "biufcSU"


@dataclasses.dataclass(frozen=True)
class FlatState:
    """A state in two parts.

    Attributes:
      tree: What JSON can hold, with references to the arrays by number.
      paths: Where each array sits in the state, for people who read the manifest.
      arrays: The arrays, contiguous, none of them sharing memory with a live object.
    """

    tree: Any
    paths: list[str]
    arrays: list[np.ndarray]


def flatten(state: Any) -> FlatState:
    """Take a state apart.

    Args:
      state: Nested dicts, lists and tuples of texts, bytes, numbers, booleans, None and arrays
        (bfloat16 included). Arrays that are views of other memory are copied, so that they can be
        written later while the run goes on.

    Raises:
      TypeError: If the state holds anything else; the message names the place.
    """
    flat = FlatState(None, [], [])
    tree = _encode(state, "", flat)
    return dataclasses.replace(flat, tree=tree)


def same_layout(left: Any, right: Any) -> bool:
    """Whether two states have arrays of the same shapes and dtypes in the same places."""
    one, other = flatten(left), flatten(right)
    return one.paths == other.paths and all(
        (x.shape, x.dtype) == (y.shape, y.dtype)
        for x, y in zip(one.arrays, other.arrays, strict=True)
    )


def unflatten(tree: Any, arrays: Sequence[np.ndarray]) -> Any:
    """Put a state together from its JSON tree and its arrays; the inverse of `flatten`.

    Raises:
      ValueError: If the tree is not one that `flatten` makes.
    """
    if not isinstance(tree, dict):
        if isinstance(tree, list):
            raise ValueError("Got a bare list in a checkpoint tree, expected a tagged one.")
        return tree
    ((tag, content),) = tree.items()
    match tag:
        case "dict":
            return {key: unflatten(value, arrays) for key, value in content.items()}
        case "items":
            return {unflatten(k, arrays): unflatten(v, arrays) for k, v in content}
        case "list":
            return [unflatten(value, arrays) for value in content]
        case "tuple":
            return tuple(unflatten(value, arrays) for value in content)
        case "array":
            return arrays[content]
        case "scalar":
            return arrays[content][()]
        case "bytes":
            return base64.b64decode(content)
        case "float":
            return float(content)
    raise ValueError(f"Got tag '{tag}' in a checkpoint tree, which this version does not know.")


def dtype_name(dtype: np.dtype) -> str:
    """Name a dtype so that `dtype_from_name` finds it again on any machine."""
    return dtype.name if _is_extended(dtype) else dtype.newbyteorder("<").str


def dtype_from_name(name: str) -> np.dtype:
    """Return the dtype of a name that `dtype_name` gave, as stored (little-endian).

    Raises:
      ValueError: If the name is not that of a plain dtype.
    """
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    if _is_extended(dtype):
        return dtype
    if dtype.kind not in _ARRAY_KINDS:
        raise ValueError(f"Got dtype '{name}' in a checkpoint, expected one of plain numbers.")
    return dtype


def _encode(node: Any, path: str, flat: FlatState) -> Any:
    if node is None or isinstance(node, (str, bool)) or type(node) is int:
        return node
    if type(node) is float:
        return node if math.isfinite(node) else {"float": repr(node)}
    if isinstance(node, bytes):
        return {"bytes": base64.b64encode(node).decode("ascii")}
    if type(node) is list:
        return {"list": [_encode(x, f"{path}/{i}", flat) for i, x in enumerate(node)]}
    if type(node) is tuple:
        return {"tuple": [_encode(x, f"{path}/{i}", flat) for i, x in enumerate(node)]}
    if isinstance(node, dict):
        return _encode_dict(node, path, flat)
    if isinstance(node, np.generic):
        return {"scalar": _add_array(np.asarray(node), path, flat)}
    if hasattr(node, "__array__"):
        return {"array": _add_array(np.asarray(node), path, flat)}
    raise TypeError(
        f"Got {type(node).__name__} at '{path.lstrip('/')}' in a state to be saved, expected "
        "dicts, lists, tuples, texts, bytes, numbers, None or arrays; convert it in save()."
    )


def _encode_dict(node: dict[Any, Any], path: str, flat: FlatState) -> Any:
    if all(isinstance(key, str) for key in node):
        return {"dict": {key: _encode(x, f"{path}/{key}", flat) for key, x in node.items()}}
    items = [(_encode(key, path, flat), key, value) for key, value in node.items()]
    return {"items": [[code, _encode(x, f"{path}/{key}", flat)] for code, key, x in items]}


def _add_array(array: np.ndarray, path: str, flat: FlatState) -> int:
    if array.dtype.kind not in _ARRAY_KINDS and not _is_extended(array.dtype):
        raise TypeError(
            f"Got an array of dtype {array.dtype} at '{path.lstrip('/')}' in a state to be saved, "
            "expected numbers, booleans or texts; convert it in save()."
        )
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    contiguous = np.ascontiguousarray(array).reshape(array.shape)
    flat.arrays.append(contiguous if contiguous.flags.owndata else contiguous.copy())
    flat.paths.append(path.lstrip("/"))
    return len(flat.arrays) - 1


def _is_extended(dtype: np.dtype) -> bool:
    """Whether the dtype is one of those that ml_dtypes adds to NumPy."""
    return dtype.kind != "O" and dtype.type is getattr(ml_dtypes, dtype.name, None)
