"""Nested Gymnasium spaces as a flat dict of leaves, and values back in their own structure.

Spaces are told apart by the names of their classes, so that those of the old `gym` package work too
and neither package has to be installed here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from embodied.core.space import SpaceError
from embodied.envs.errors import UnsupportedSpace
from embodied.envs.leaf import Leaf, leaf_name, named

MakeLeaf = Callable[..., Leaf]


class Tree:
    """A Gymnasium space whose arrays are named by joining the nested keys with `_`.

    Attributes:
      leaves: Leaf per name.
    """

    def __init__(
        self,
        space: Any,
        single: str,
        make: MakeLeaf,
        taken: Collection[str],
        prefix: str,
        choices: int = 0,
    ) -> None:
        """Collect the arrays of a space.

        Args:
          space: The Gymnasium space.
          single: Name of the array if the space is not a Dict or Tuple.
          make: `observation_leaf` or `action_leaf`.
          taken: Names that mean something else; such an array gets the prefix and `_` in front.
          prefix: `obs` or `act`.
          choices: For observations, number of values up to which choices are classes.

        Raises:
          UnsupportedSpace: A space holds no numeric array, or two arrays would share a name.
        """
        self._space = space
        self._make = make
        self._taken = taken
        self._prefix = prefix
        self._choices = choices
        self._names: dict[tuple[Any, ...], str] = {}
        self.leaves: dict[str, Leaf] = {}
        self._collect(space, (), single)

    @property
    def notes(self) -> list[str]:
        """What is surprising about the arrays, in sentences."""
        leaves = self.leaves.items()
        return [f"Observation {name!r} {leaf.note}." for name, leaf in leaves if leaf.note]

    def flatten(self, value: Any, batch: tuple[int, ...] = ()) -> dict[str, np.ndarray]:
        """Turn a nested value of the environment into our arrays by name.

        Args:
          value: An observation, with its containers as in the space.
          batch: Dimensions in front of those of every array, where there are several instances.

        Raises:
          SpaceError: Containers or arrays are not as declared; names all of these arrays.
        """
        result: dict[str, np.ndarray] = {}
        problems: list[SpaceError] = []
        self._flatten(self._space, (), value, batch, result, problems)
        if problems:
            raise SpaceError(" ".join(map(str, problems))) from problems[0]
        return result

    def unflatten(self, values: Mapping[str, Any]) -> Any:
        """Turn our arrays by name into a nested value in the environment's range and type."""
        return self._build(self._space, (), values)

    def _collect(self, space: Any, path: tuple[Any, ...], single: str) -> None:
        children = _children(space)
        if children is not None:
            for key, child in children:
                self._collect(child, (*path, key), single)
            return
        name = "_".join(str(key) for key in path) or single
        name = leaf_name(name, self._taken, self._prefix)
        if name in self.leaves:
            raise UnsupportedSpace(f"Two arrays would be named {name!r}; rename one of them.")
        self._names[path] = name
        with named(name, self._prefix):
            self.leaves[name] = _leaf(space, self._make, self._choices)

    def _flatten(
        self,
        space: Any,
        path: tuple[Any, ...],
        value: Any,
        batch: tuple[int, ...],
        result: dict[str, np.ndarray],
        problems: list[SpaceError],
    ) -> None:
        children = _children(space)
        if children is None:
            name = self._names[path]
            try:
                result[name] = self.leaves[name].encode(value, name, batch)
            except SpaceError as error:
                problems.append(error)
            return
        expected = [key for key, _ in children]
        if isinstance(value, Mapping):
            found = list(value)
        else:
            found = list(range(len(value))) if isinstance(value, (tuple, list)) else []
        if set(found) != set(expected) or isinstance(value, Mapping) == _is(space, "Tuple"):
            where = "_".join(map(str, path)) or "the whole observation"
            message = f"expected the keys {sorted(expected)} in {where}, got {_describe(value)}"
            raise SpaceError(f"Invalid observation: {message}.")
        for key, child in children:
            self._flatten(child, (*path, key), value[key], batch, result, problems)

    def _build(self, space: Any, path: tuple[Any, ...], values: Mapping[str, Any]) -> Any:
        children = _children(space)
        if children is not None:
            parts = {key: self._build(child, (*path, key), values) for key, child in children}
            return tuple(parts.values()) if _is(space, "Tuple") else parts
        name = self._names[path]
        value = self.leaves[name].decode(values[name])
        # Discrete spaces and 0-dimensional ones hold NumPy scalars.
        return value[()] if _is(space, "Discrete") else value


def _describe(value: Any) -> str:
    """Name the type of a value, and its keys or length if it has some."""
    if isinstance(value, Mapping):
        return f"keys {sorted(map(str, value))}"
    length = f" of length {len(value)}" if isinstance(value, (tuple, list)) else ""
    return f"a {type(value).__name__}{length}"


def _is(space: Any, name: str) -> bool:
    """Whether a space is of the class of that name or a subclass."""
    return any(parent.__name__ == name for parent in type(space).__mro__)


def _children(space: Any) -> list[tuple[Any, Any]] | None:
    """List key and space of what a Dict or Tuple contains, None for all other spaces."""
    if _is(space, "Dict"):
        return list(space.spaces.items())
    if _is(space, "Tuple"):
        return list(enumerate(space.spaces))
    return None


def _leaf(space: Any, make: MakeLeaf, choices: int) -> Leaf:
    """Make the leaf of one space that is not a container."""
    if _is(space, "Box"):
        return make(space.dtype, space.shape, space.low, space.high)
    declared = {"choices": choices} if choices else {}
    if _is(space, "Discrete"):
        start = getattr(space, "start", 0)
        return make(space.dtype, (), start, start + space.n - 1, **declared)
    if _is(space, "MultiDiscrete"):
        start = getattr(space, "start", 0)
        return make(space.dtype, space.shape, start, start + space.nvec - 1, **declared)
    if _is(space, "MultiBinary"):
        return make(space.dtype, space.shape, 0, 1)
    raise UnsupportedSpace(
        f"Got a {type(space).__name__} space, expected Box, Discrete, MultiDiscrete, MultiBinary, "
        "Dict or Tuple; turn it into numbers with an observation or action wrapper."
    )
