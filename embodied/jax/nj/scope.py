"""The name scope: which module path new names are placed under."""

import contextlib
import threading
from collections.abc import Iterator


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
