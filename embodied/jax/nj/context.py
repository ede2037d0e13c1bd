"""The context of one pure call: its state dictionary, random key and permissions."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


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
