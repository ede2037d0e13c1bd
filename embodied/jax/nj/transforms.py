"""JAX transformations over functions that use modules.

A loop or branch body has to declare which state it changes before it is traced. Bodies are traced
under the assumption that they change what is remembered about them, at first nothing. Where that
proves wrong the body is traced once more, and what was learned is remembered for the rest of the
pure call, so that a body at nesting depth n is traced at most n + 1 times.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from embodied.jax.nj.context import Context, context, opened
from embodied.jax.nj.module import Module


def grad(
    fn: Callable[..., Any], keys: Sequence[Module | str], has_aux: bool = False
) -> Callable[..., tuple[Any, ...]]:
    """Differentiate a scalar function with respect to the parameters of some modules.

    Args:
      fn: Function that returns a float32 scalar, or ``(scalar, aux)``. State that it writes
        is kept.
      keys: Modules or path prefixes whose floating-point entries are differentiated.
      has_aux: Whether `fn` returns an auxiliary output.

    Returns:
      A function of the same arguments that returns ``loss, params, grads`` and, with `has_aux`,
      the auxiliary output; ``params`` and ``grads`` are flat dictionaries by path.

    Raises:
      ValueError: A prefix selects nothing.
    """
    prefixes = prefixes_of(keys)

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        outer = context()
        if outer.create:
            out = fn(*args, **kwargs)
        params = select(outer.state, prefixes)
        if outer.dry:
            loss, *aux = out if has_aux else (out,)
            return (loss, params, params, *aux)
        position = outer.next_position()
        key = _next_key(outer)

        def forward(params: dict[str, Any]) -> tuple[Any, tuple[Any, dict[str, Any]]]:
            ctx = outer.child({**outer.state, **params}, key, position)
            with opened(ctx):
                out = fn(*args, **kwargs)
            loss, aux = out if has_aux else (out, None)
            return loss, (aux, {path: ctx.state[path] for path in ctx.written})

        (loss, (aux, changes)), grads = jax.value_and_grad(forward, has_aux=True)(params)
        _keep(outer, changes)
        return (loss, params, grads, aux) if has_aux else (loss, params, grads)

    return wrapper


def scan(
    fn: Callable[[Any, Any], tuple[Any, Any]],
    carry: Any,
    xs: Any,
    *,
    length: int | None = None,
    unroll: int | bool = 1,
    axis: int = 0,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Run ``carry, y = fn(carry, x)`` over the slices of `xs` along `axis`, as `jax.lax.scan`.

    Every step has its own random keys, and state that `fn` writes is carried along.

    Returns:
      The last carry and the outputs stacked along `axis`.
    """
    outer = context()

    def move(tree: Any, source: int, target: int) -> Any:
        return jax.tree.map(lambda x: jnp.moveaxis(x, source, target), tree)

    xs = move(xs, axis, 0) if axis else xs
    length = jax.tree.leaves(xs)[0].shape[0] if length is None else length
    if outer.create:
        last, y = fn(carry, jax.tree.map(lambda x: x[0], xs))
        if outer.dry:
            ys = jax.tree.map(lambda y: jnp.broadcast_to(y, (length, *jnp.shape(y))), y)
            return last, (move(ys, 0, axis) if axis else ys)
    base = _next_key(outer)
    seeds = None if base is None else jax.random.split(base, length)

    def run(body: _Body) -> tuple[Any, dict[str, Any]]:
        def step(carry: Any, x: Any) -> tuple[Any, Any]:
            (carry, y), changes = body(lambda: fn(carry[0], x[0]), carry[1], x[1])
            return (carry, changes), y

        (last, changes), ys = jax.lax.scan(
            step, (carry, body.before()), (xs, seeds), length, reverse=reverse, unroll=unroll
        )
        return (last, ys), changes

    last, ys = _with_writes(outer, run)
    return last, (move(ys, 0, axis) if axis else ys)


def recall(
    fn: Callable[[Any], Any], keys: Sequence[Module | str], xs: Any, known: Any, *, steps: bool
) -> Any:
    """Return what ``fn(xs)`` is known to be, with the gradient of computing it.

    The value is free; the gradient is that of an ordinary call, for any cotangent. With `steps`,
    the backward pass computes one slice of `xs` after the other and drops what it needed before
    the next one. Differentiating a `scan` would keep that of all slices, which for many large
    slices takes a multiple of the memory, and of the time where memory is what takes time.

    Args:
      fn: Function that may read state, but neither write it nor draw random numbers, which would
        be others than those of `known`. It treats the slices along the first axis alike.
      keys: Modules or path prefixes that gradients are needed for; other state is a constant.
      xs: Tree of floating-point arrays [H, ...], which gradients flow through, too.
      known: Its value, computed before; tree of floating-point arrays [H, ...]. No gradient flows
        through it.
      steps: Whether to differentiate one slice after the other instead of all at once.

    Raises:
      ValueError: A prefix selects nothing.
      RuntimeError: `fn` writes state.
    """
    outer = context()
    if outer.create:
        fn(jax.tree.map(lambda x: x[0], xs) if steps else xs)
        if outer.dry:
            return known
    params = select(outer.state, prefixes_of(keys))
    rest = {path: value for path, value in outer.state.items() if path not in params}
    key, position = _next_key(outer), outer.next_position()

    def run(params: Any, xs: Any, rest: Any) -> Any:
        ctx = outer.child({**rest, **params}, key, position)
        with opened(ctx):
            value = fn(xs)
        if ctx.written:
            raise RuntimeError(
                f"A function that is recalled wrote the state {sorted(ctx.written)}."
            )
        return value

    @jax.custom_vjp
    def result(params: Any, xs: Any, rest: Any, known: Any) -> Any:
        return known

    def forward(params: Any, xs: Any, rest: Any, known: Any) -> tuple[Any, Any]:
        return known, (params, xs, rest)

    def backward(inputs: Any, cotangents: Any) -> tuple[Any, Any, None, None]:
        params, xs, rest = inputs

        def pull(xs: Any, cotangents: Any) -> Any:
            return jax.vjp(lambda params, xs: run(params, xs, rest), params, xs)[1](cotangents)

        def step(sums: Any, slice_: Any) -> tuple[Any, Any]:
            grads, inputs = pull(*slice_)
            return jax.tree.map(jnp.add, sums, grads), inputs

        if steps:
            zeros = jax.tree.map(jnp.zeros_like, params)
            return *jax.lax.scan(step, zeros, (xs, cotangents)), None, None
        return *pull(xs, cotangents), None, None

    result.defvjp(forward, backward)
    return result(params, xs, jax.lax.stop_gradient(rest), jax.lax.stop_gradient(known))


def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], *operands: Any
) -> Any:
    """Call one of two functions depending on a boolean scalar, as `jax.lax.cond`.

    Both functions may write state; an entry that only one of them writes keeps its value
    in the other.
    """
    outer = context()
    if outer.create:
        true_fn(*operands)
        false_fn(*operands)
    key = _next_key(outer)

    def run(body: _Body) -> tuple[Any, dict[str, Any]]:
        def branch(fn: Callable[..., Any]) -> Callable[..., Any]:
            return lambda *operands: body(lambda: fn(*operands), body.before(), key)

        result: tuple[Any, dict[str, Any]] = jax.lax.cond(
            pred, branch(true_fn), branch(false_fn), *operands
        )
        return result

    return _with_writes(outer, run)


def while_loop(cond_fn: Callable[[Any], Any], body_fn: Callable[[Any], Any], carry: Any) -> Any:
    """Run ``carry = body_fn(carry)`` while ``cond_fn(carry)`` holds, as `jax.lax.while_loop`.

    The body may write state; the condition may only read it.
    """
    outer = context()
    if outer.create:
        cond_fn(carry)
        body_fn(carry)
    start = _next_key(outer)

    def run(body: _Body) -> tuple[Any, dict[str, Any]]:
        def test(carry: Any) -> Any:
            values, changes, key = carry
            return body(lambda: cond_fn(values), changes, key)[0]

        def step(carry: Any) -> Any:
            values, changes, key = carry
            key, current = (None, None) if key is None else jax.random.split(key)
            values, changes = body(lambda: body_fn(values), changes, current)
            return values, changes, key

        values, changes, _ = jax.lax.while_loop(test, step, (carry, body.before(), start))
        return values, changes

    return _with_writes(outer, run)


def stop_gradient(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Call `fn` with all state as a constant, so that no gradient reaches parameters through it.

    Gradients with respect to the arguments are not stopped. State that `fn` writes is kept.
    """

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        outer = context()
        if outer.create:
            return fn(*args, **kwargs)
        state = jax.lax.stop_gradient(outer.state)
        ctx = outer.child(state, _next_key(outer), outer.next_position())
        with opened(ctx):
            out = fn(*args, **kwargs)
        _keep(outer, {path: ctx.state[path] for path in ctx.written})
        return out

    return wrapper


def checkpoint(fn: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Recompute the intermediate values of `fn` in the backward pass, as `jax.checkpoint`."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        outer = context()
        if outer.create:
            fn(*args, **kwargs)
        position = outer.next_position()

        def forward(state: dict[str, Any], key: Any, inputs: Any) -> tuple[Any, dict[str, Any]]:
            ctx = outer.child(state, key, position)
            with opened(ctx):
                out = fn(*inputs, **kwargs)
            return out, {path: ctx.state[path] for path in ctx.written}

        out, changes = jax.checkpoint(forward, **options)(outer.state, _next_key(outer), args)
        _keep(outer, changes)
        return out

    return wrapper


class _Body:
    """Runs the body of a loop or branch with the writes that are known of it so far."""

    def __init__(self, outer: Context, position: tuple[int, ...], known: frozenset[str]) -> None:
        self.outer = outer
        self.position = position
        self.known = known
        self.written: frozenset[str] = frozenset()

    def before(self) -> dict[str, Any]:
        """The values, before the body runs, of the entries that it is known to write."""
        return {path: self.outer.state[path] for path in self.known}

    def __call__(
        self, fn: Callable[[], Any], changes: dict[str, Any], key: Any
    ) -> tuple[Any, dict[str, Any]]:
        """Run `fn` on the state with `changes`; return its output and the new changes."""
        ctx = self.outer.child({**self.outer.state, **changes}, key, self.position)
        with opened(ctx):
            out = fn()
        self.written |= ctx.written
        return out, {path: ctx.state[path] for path in self.known}


def _with_writes(outer: Context, run: Callable[[_Body], tuple[Any, dict[str, Any]]]) -> Any:
    """Trace a body until the writes that it was traced with are those that it makes."""
    position = outer.next_position()
    while True:
        body = _Body(outer, position, outer.known_writes.get(position, frozenset()))
        out, changes = run(body)
        if body.written <= body.known:
            _keep(outer, changes)
            return out
        outer.known_writes[position] = body.known | body.written


def _next_key(ctx: Context) -> Any:
    return None if ctx.key is None else ctx.seed()


def _keep(ctx: Context, changes: dict[str, Any]) -> None:
    for path, value in changes.items():
        ctx.write(path, value)


def prefixes_of(keys: Sequence[Module | str]) -> list[str]:
    """Return the prefixes of all paths of modules, or below path prefixes."""
    return [f"{key.path if isinstance(key, Module) else key}/" for key in keys]


def select(state: dict[str, Any], prefixes: list[str]) -> dict[str, Any]:
    """Return the floating-point entries of the state that begin with one of the prefixes.

    Raises:
      ValueError: A prefix selects nothing.
    """
    for prefix in prefixes:
        if not any(path.startswith(prefix) for path in state):
            raise ValueError(f"There is no state under '{prefix}' to differentiate.")
    return {
        path: value
        for path, value in state.items()
        if path.startswith(tuple(prefixes)) and jnp.issubdtype(value.dtype, jnp.floating)
    }
