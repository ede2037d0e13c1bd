"""Modules: classes with hyper-parameters, children and named arrays, and the arrays themselves."""

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

import jax

from embodied.jax.nj.context import context, current_scope, join, scope

T = TypeVar("T")
_REQUIRED = object()


class ModuleMeta(type):
    """Collects annotated hyper-parameters and runs public methods inside the module's scope."""

    _fields: dict[str, Any]

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> "ModuleMeta":
        """Create the class with wrapped methods and the hyper-parameters of all its bases."""
        cls = super().__new__(mcs, name, bases, namespace)
        annotations = inspect.get_annotations(cls)
        for key, value in namespace.items():
            public = key == "__call__" or not key.startswith("_")
            # A function that is the default of a hyper-parameter is not a method.
            if public and key not in annotations and isinstance(value, types.FunctionType):
                setattr(cls, key, _in_scope(value))
        inherited = [base._fields for base in reversed(cls.__mro__[1:]) if hasattr(base, "_fields")]
        cls._fields = {k: v for fields in inherited for k, v in fields.items()}
        for key, annotation in annotations.items():
            if not key.startswith("_") and "ClassVar" not in str(annotation):
                cls._fields[key] = cls.__dict__.get(key, _REQUIRED)
        for key in cls._fields.keys() & cls.__dict__.keys():
            cls._fields[key] = cls.__dict__[key]
        return cls

    def __call__(cls, *args: Any, name: str = "", **kwargs: Any) -> Any:
        """Make an instance; hyper-parameters are taken from the keyword arguments."""
        if not name:
            raise TypeError(
                f"{cls.__name__} needs a name: pass name='...', or make it with "
                f"self.sub('...', {cls.__name__}, ...)."
            )
        module: Any = object.__new__(cls)  # type: ignore[arg-type]
        path = join(current_scope(), name)
        values = {}
        for key, default in cls._fields.items():
            values[key] = kwargs.pop(key, default)
            if values[key] is _REQUIRED:
                raise TypeError(f"{cls.__name__} '{path}' needs the hyper-parameter '{key}'.")
        vars(module).update(values, path=path, name=name, _children={})
        try:
            with scope(path, absolute=True):
                module.__init__(*args, **kwargs)
        except TypeError as error:
            known = ", ".join(cls._fields) or "none"
            error.add_note(f"While making {cls.__name__} '{path}' (hyper-parameters: {known}).")
            raise
        return module


def _in_scope(method: Callable[..., Any]) -> Callable[..., Any]:
    """Run a method with names placed under its module and with the module named in errors."""

    @functools.wraps(method)
    def wrapper(self: "Module", *args: Any, **kwargs: Any) -> Any:
        try:
            with scope(self.path, absolute=True), jax.named_scope(self.name):
                return method(self, *args, **kwargs)
        except Exception as error:
            if not any(note.startswith("In module '") for note in getattr(error, "__notes__", ())):
                error.add_note(
                    f"In module '{self.path}' ({type(self).__name__}.{method.__name__})."
                )
            raise

    return wrapper


class Module(metaclass=ModuleMeta):
    """Base class of everything that owns parameters.

    Annotated class attributes are hyper-parameters: they become keyword arguments of the
    constructor (besides those of ``__init__``) and read-only attributes, and subclasses inherit
    them. A module outside of another one is given its name by ``name='...'``.

        class Affine(nj.Module):
            bias: bool = True

            def __init__(self, units: int) -> None:
                self.units = units

            def __call__(self, x: jax.Array) -> jax.Array:
                kernel = self.value('kernel', jnp.ones, (x.shape[-1], self.units))
                return x @ kernel

    Attributes:
      path: Full path, which prefixes the state entries of the module.
      name: Last part of the path.
    """

    _fields: ClassVar[dict[str, Any]]
    path: ClassVar[str]
    name: ClassVar[str]
    _children: dict[str, Any]

    def __setattr__(self, key: str, value: Any) -> None:
        if key in type(self)._fields or key in ("path", "name"):
            raise AttributeError(
                f"'{key}' of {type(self).__name__} '{self.path}' is read-only; pass it to the "
                f"constructor instead."
            )
        super().__setattr__(key, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    @property
    def values(self) -> dict[str, Any]:
        """The state entries of this module and its children, by full path."""
        prefix = f"{self.path}/"
        return {k: v for k, v in context().state.items() if k.startswith(prefix)}

    def put(self, values: Mapping[str, Any]) -> None:
        """Write several existing state entries, given by full path."""
        for path, value in values.items():
            context().write(path, value)

    def sub(self, name: str, make: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Return the child module `name`, made as ``make(*args, name=name, **kwargs)`` at first.

        Raises:
          TypeError: The child exists and is of another class.
        """
        child: T | None = self._children.get(name)
        if child is None:
            with scope(self.path, absolute=True):
                child = self._children[name] = make(*args, name=name, **kwargs)
        elif isinstance(make, type) and type(child) is not make:
            raise TypeError(
                f"Got {make.__name__} for the child '{name}' of '{self.path}', which already is "
                f"a {type(child).__name__}; give one of the two another name."
            )
        return child

    def value(self, name: str, make: Any, *args: Any, **kwargs: Any) -> jax.Array:
        """Return the array `name`, created as ``make(*args, **kwargs)`` at first.

        Args:
          name: Name within the module.
          make: Initializer, or the initial value itself.
          *args: Arguments of the initializer.
          **kwargs: Keyword arguments of the initializer.

        Raises:
          KeyError: The array does not exist and the call may not create state.
        """
        path = join(self.path, name)
        ctx = context()
        if path not in ctx.state and ctx.create:
            ctx.add(path, make(*args, **kwargs) if callable(make) else make)
        value: jax.Array = ctx.read(path)
        return value


def make(name: str, cls: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Make a module that is not inside of another one, as `Module.sub` makes children."""
    return cls(*args, name=name, **kwargs)


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
        self._make: Callable[[], Any] = lambda: make(*args, **kwargs)

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
