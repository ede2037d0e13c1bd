"""Modules that hold one array or one tree of arrays that code reads and writes."""

from collections.abc import Callable
from typing import Any

import jax

from embodied.jax.nj.context import context
from embodied.jax.nj.module import Module
from embodied.jax.nj.scope import join


class Variable(Module):
    """One array that can be read and written, stored at ``<path>/value``."""

    def __init__(self, make: Any, *args: Any, **kwargs: Any) -> None:
        """Remember the initializer ``make(*args, **kwargs)``, or an initial value."""
        self._make, self._args, self._kwargs = make, args, kwargs

    def read(self) -> jax.Array:
        """Return the current value, creating it where that is allowed."""
        return self.value("value", self._make, *self._args, **self._kwargs)

    def write(self, value: Any) -> jax.Array:
        """Replace the value, which keeps its shape and dtype, and return the new one."""
        self.read()
        context().write(join(self.path, "value"), value)
        return self.read()


class Tree(Module):
    """A tree of arrays that can be read and written, leaves stored at ``<path>/<key path>``.

    Dictionary keys and attribute names appear as they are, positions as numbers.
    """

    def __init__(self, make: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Remember the initializer ``make(*args, **kwargs)`` of the tree."""
        self._make = lambda: make(*args, **kwargs)

    def read(self) -> Any:
        """Return the current tree, creating it where that is allowed."""
        ctx = context()
        shapes = jax.eval_shape(self._make)
        paths, treedef = self._paths(shapes)
        if ctx.create and any(path not in ctx.state for path in paths):
            for path, leaf in zip(paths, jax.tree.leaves(self._make()), strict=True):
                ctx.add(path, leaf)
        return jax.tree.unflatten(treedef, [ctx.read(path) for path in paths])

    def write(self, tree: Any) -> None:
        """Replace all leaves; structure, shapes and dtypes stay."""
        paths, _ = self._paths(tree)
        for path, leaf in zip(paths, jax.tree.leaves(tree), strict=True):
            context().write(path, leaf)

    def _paths(self, tree: Any) -> tuple[list[str], Any]:
        leaves, treedef = jax.tree_util.tree_flatten_with_path(tree)
        names = ["/".join(_key_name(key) for key in keys) for keys, _ in leaves]
        return [join(self.path, name) for name in names], treedef


def _key_name(key: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    raise TypeError(f"Got an unknown kind of tree key {key!r}.")
