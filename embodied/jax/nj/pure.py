"""Turn code that uses modules into pure functions of an explicit state."""

import functools
from collections.abc import Callable
from typing import Any

import jax

from embodied.jax.nj.context import Context, as_key, context, opened, running

State = dict[str, Any]


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
        return jax.jit(create)()

    return wrapper
