"""What modules work in: names, the state of one call, and pure functions of that state.

`scope` says where new names go, `context` gives the state, random key and permissions of the call
that runs, and `pure` and `init` run code that uses modules on an explicit state.
"""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

State = dict[str, Any]


class _Scopes(threading.local):
    """Per-thread scope, so that several threads can trace at once."""

    def __init__(self) -> None:
        self.path = ""


_scopes = _Scopes()


def current_scope() -> str:
    """Return the path that new names are placed under, without a trailing slash."""
    return _scopes.path


def join(path: str, name: str) -> str:
    """Join two parts of a path; either may be empty."""
    return f"{path}/{name}" if path and name else path or name


@contextlib.contextmanager
def scope(name: str, absolute: bool = False) -> Iterator[str]:
    """Place the names made inside the block under `name`.

    Args:
      name: One or more path parts, for example ``'enc'`` or ``'enc/mlp'``.
      absolute: Replace the enclosing scope instead of extending it.

    Yields:
      The full path of the scope.
    """
    outer = _scopes.path
    _scopes.path = name if absolute else join(outer, name)
    try:
        yield _scopes.path
    finally:
        _scopes.path = outer


class Context:
    """State and permissions that modules see while a pure function runs.

    Attributes:
      state: Flat mapping from full path to array.
      written: Paths that were written since the context was opened.
      create: Whether missing entries may be created.
      modify: Whether existing entries may be written.
      ignore: Whether forbidden writes are dropped instead of being errors.
      dry: Whether only the created entries matter, so that loops may run one step and
        gradients need not be computed.
      known_writes: Which entries the loop and branch bodies of this call write, by position of
        the body; shared by all nested contexts of one pure call, see `transforms.py`.
    """

    def __init__(
        self,
        state: dict[str, Any],
        key: Any = None,
        *,
        create: bool = False,
        modify: bool = False,
        ignore: bool = False,
        dry: bool = False,
        position: tuple[int, ...] = (),
        known_writes: dict[tuple[int, ...], frozenset[str]] | None = None,
    ) -> None:
        self.state = dict(state)
        self.key = key
        self.create = create
        self.modify = modify
        self.ignore = ignore
        self.dry = dry
        self.written: set[str] = set()
        self.known_writes = {} if known_writes is None else known_writes
        self._position = position
        self._bodies = 0
        self._seeds = 0

    def child(self, state: dict[str, Any], key: Any, position: tuple[int, ...]) -> "Context":
        """Open a context for the body of a transformation; everything must exist already."""
        return Context(
            state,
            key,
            create=False,
            modify=self.modify,
            ignore=self.ignore,
            position=position,
            known_writes=self.known_writes,
        )

    def next_position(self) -> tuple[int, ...]:
        """Name the next loop or branch body of this call by its position in program order."""
        self._bodies += 1
        return (*self._position, self._bodies)

    def read(self, path: str) -> Any:
        """Return the array stored at `path`.

        Raises:
          KeyError: The entry does not exist.
        """
        if path not in self.state:
            raise KeyError(
                f"The state has no entry '{path}'; create it by running the function through "
                f"nj.init, or load a checkpoint of the same architecture."
            )
        return self.state[path]

    def add(self, path: str, value: Any) -> None:
        """Create the entry `path` with the initial `value`.

        Raises:
          KeyError: Creating is not allowed in this call.
        """
        if not self.create:
            self.read(path)
        self.state[path] = jnp.asarray(value)

    def write(self, path: str, value: Any) -> None:
        """Replace the entry `path`, which must keep its shape and dtype.

        Raises:
          KeyError: The entry does not exist.
          ValueError: The new value has another shape or dtype.
          RuntimeError: Writing is not allowed in this call.
        """
        old = self.read(path)
        value = jnp.asarray(value)
        if (value.shape, value.dtype) != (old.shape, old.dtype):
            raise ValueError(
                f"Got {value.dtype}{list(value.shape)} for the state entry '{path}', "
                f"expected {old.dtype}{list(old.shape)}."
            )
        if self.modify:
            self.state[path] = value
            self.written.add(path)
        elif not self.ignore:
            raise RuntimeError(
                f"Cannot write the state entry '{path}' in a call that does not modify state; "
                f"pass modify=True to keep the write or ignore=True to drop it."
            )

    def seed(self) -> jax.Array:
        """Return a new random key, uint32[2], that no other call in this context gets.

        Raises:
          RuntimeError: The call was made without a seed.
        """
        if self.key is None:
            raise RuntimeError("A random key was asked for, but the pure call has no seed.")
        self._seeds += 1
        return jax.random.fold_in(self.key, self._seeds)


class _Stack(threading.local):
    """Per-thread stack of open contexts, so that several threads can trace at once."""

    def __init__(self) -> None:
        self.contexts: list[Context] = []


_stack = _Stack()


def context() -> Context:
    """Return the context of the innermost pure call.

    Raises:
      RuntimeError: No pure call is running in this thread.
    """
    if not _stack.contexts:
        raise RuntimeError(
            "Modules can only be used inside nj.pure or nj.init; wrap the calling function."
        )
    return _stack.contexts[-1]


def running() -> bool:
    """Whether a pure call is running in this thread."""
    return bool(_stack.contexts)


@contextlib.contextmanager
def opened(ctx: Context) -> Iterator[Context]:
    """Make `ctx` the current context inside the block."""
    _stack.contexts.append(ctx)
    try:
        yield ctx
    finally:
        _stack.contexts.pop()


def creating() -> bool:
    """Whether the current call may create state, as it does inside `nj.init`."""
    return context().create


def seed() -> jax.Array:
    """Return a new random key, uint32[2], from the seed of the current pure call."""
    return context().seed()


def as_key(value: Any) -> Any:
    """Turn an integer or a uint32[2] array into a random key; None stays None."""
    if value is None:
        return None
    if isinstance(value, int | np.integer):
        return jax.random.PRNGKey(value)
    return jnp.asarray(value, jnp.uint32)


def pure(fn: Callable[..., Any]) -> Callable[..., tuple[State, Any]]:
    """Turn `fn`, which uses modules, into a pure function of the state.

    The result is called as ``fn(state, *args, seed=None, create=None, modify=None, ignore=None,
    **kwargs)`` and returns ``(state, out)``. The flags default to those of the enclosing pure
    call, and to False in the outermost one:

    - ``seed``: an integer or uint32[2] key for `nj.seed`.
    - ``create``: missing entries are created by their initializers.
    - ``modify``: entries may be written; the returned state holds the new values.
    - ``ignore``: writes are dropped rather than refused where ``modify`` is False.

    Raises:
      KeyError: An entry is missing and ``create`` is False.
      RuntimeError: A write happened and both ``modify`` and ``ignore`` are False.
    """

    @functools.wraps(fn)
    def wrapper(
        state: State,
        *args: Any,
        seed: Any = None,
        create: bool | None = None,
        modify: bool | None = None,
        ignore: bool | None = None,
        **kwargs: Any,
    ) -> tuple[State, Any]:
        outer = context() if running() else Context({})
        ctx = Context(
            state,
            as_key(seed),
            create=outer.create if create is None else create,
            modify=outer.modify if modify is None else modify,
            ignore=outer.ignore if ignore is None else ignore,
        )
        with opened(ctx):
            out = fn(*args, **kwargs)
        return ctx.state, out

    return wrapper


def init(fn: Callable[..., Any]) -> Callable[..., State]:
    """Make a function that returns the state which `fn` needs, with its initial values.

    The result is called as ``init_fn(state, *args, seed=None, **kwargs)``. Entries that exist
    in ``state`` are kept, and what `fn` writes is dropped, so that an optimizer that is created
    here has taken no step.
    """

    @functools.wraps(fn)
    def wrapper(state: State, *args: Any, seed: Any = None, **kwargs: Any) -> State:
        def create() -> State:
            ctx = Context(state, as_key(seed), create=True, ignore=True, dry=True)
            with opened(ctx):
                fn(*args, **kwargs)
            return ctx.state

        # Compiled, only what the initial values depend on is computed.
        created: dict[str, Any] = jax.jit(create)()
        return created

    return wrapper
