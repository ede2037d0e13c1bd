"""Sums whose gradient is computed together with their value, slice by slice."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from embodied.jax.nj.context import context, opened
from embodied.jax.nj.module import Module
from embodied.jax.nj.transforms import prefixes_of, select

Step = Callable[[Any], tuple[jax.Array, Any]]


def accumulate(fn: Step, keys: Sequence[Module | str], xs: Any) -> tuple[jax.Array, Any]:
    """Sum a scalar over the slices of `xs`, with gradients with respect to parameters only.

    The gradient of a slice is computed right after its value, and what it needed is dropped
    before the next one. Differentiating a `scan` would keep that of all slices, which for many
    large slices takes a multiple of their memory, and of the time where memory is what takes time.

    Args:
      fn: Maps a slice to a float32 scalar and an auxiliary output. It may read state and draw
        random numbers, but not write state; of arrays it may use only those of its slice.
      keys: Modules or path prefixes that gradients are needed for. The other state, `xs` and the
        auxiliary outputs carry none.
      xs: Tree of arrays, cut along their first axis.

    Returns:
      The sum, and the auxiliary outputs stacked along a new first axis.

    Raises:
      ValueError: A prefix selects nothing.
      RuntimeError: `fn` writes state.
    """
    outer = context()
    length = jax.tree.leaves(xs)[0].shape[0]
    if outer.create:
        value, aux = fn(jax.tree.map(lambda x: x[0], xs))
        if outer.dry:
            return value, jax.tree.map(lambda x: jnp.broadcast_to(x, (length, *jnp.shape(x))), aux)
    params = select(outer.state, prefixes_of(keys))
    rest = {path: value for path, value in outer.state.items() if path not in params}
    seeds = None if outer.key is None else jax.random.split(outer.seed(), length)
    position = outer.next_position()

    def run(params: Any, rest: Any, slice_: Any) -> tuple[jax.Array, Any]:
        x, seed = slice_
        ctx = outer.child({**rest, **params}, seed, position)
        with opened(ctx):
            value, aux = fn(x)
        if ctx.written:
            raise RuntimeError(f"A function that is summed wrote the state {sorted(ctx.written)}.")
        return value, aux

    @jax.custom_vjp
    def total(params: Any, rest: Any, slices: Any) -> tuple[jax.Array, Any]:
        step = lambda sum_, x: _add(sum_, run(params, rest, x))  # noqa: E731
        return jax.lax.scan(step, jnp.float32(0), slices)

    def forward(params: Any, rest: Any, slices: Any) -> tuple[tuple[jax.Array, Any], Any]:
        def step(sums: Any, x: Any) -> tuple[Any, Any]:
            (value, aux), grads = jax.value_and_grad(run, has_aux=True)(params, rest, x)
            return _add(sums, ((value, grads), aux))

        zeros = jnp.float32(0), jax.tree.map(jnp.zeros_like, params)
        (value, grads), aux = jax.lax.scan(step, zeros, slices)
        return (value, aux), grads

    def backward(grads: Any, cotangents: tuple[jax.Array, Any]) -> tuple[Any, None, None]:
        return jax.tree.map(lambda grad: cotangents[0] * grad, grads), None, None

    total.defvjp(forward, backward)
    return total(params, jax.lax.stop_gradient(rest), jax.lax.stop_gradient((xs, seeds)))


def _add(sums: Any, outputs: tuple[Any, Any]) -> tuple[Any, Any]:
    """Add the first output of a step to the sums; hand on the other."""
    return jax.tree.map(jnp.add, sums, outputs[0]), outputs[1]
