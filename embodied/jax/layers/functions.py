"""Parameter-free building blocks: activations, squashing, masking and tree helpers."""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp

from embodied.core.suggest import hint

Array = jax.Array
Tree = Any
Activation = Callable[[Array], Array]


def identity(x: Array) -> Array:
    """Return the input."""
    return x


def _squared_relu(x: Array) -> Array:
    """Square of the rectified input."""
    return jnp.square(jax.nn.relu(x))


def _mish(x: Array) -> Array:
    """Mish, x * tanh(softplus(x))."""
    return x * jnp.tanh(jax.nn.softplus(x))


def _swiglu(x: Array) -> Array:
    """Gate the second half of the features with the SiLU of the first half."""
    if x.shape[-1] % 2:
        raise ValueError(
            f"The activation 'swiglu' got {x.shape[-1]} features, expected an even number; "
            "choose an even number of units."
        )
    gate, value = jnp.split(x, 2, -1)
    return jax.nn.silu(gate) * value


ACTIVATIONS: Mapping[str, Activation] = MappingProxyType(
    {
        "none": identity,
        "silu": jax.nn.silu,
        "swish": jax.nn.silu,
        "gelu": jax.nn.gelu,
        "relu": jax.nn.relu,
        "relu2": _squared_relu,
        "leaky_relu": jax.nn.leaky_relu,
        "elu": jax.nn.elu,
        "selu": jax.nn.selu,
        "tanh": jnp.tanh,
        "sigmoid": jax.nn.sigmoid,
        "softplus": jax.nn.softplus,
        "mish": _mish,
        "swiglu": _swiglu,
    }
)


def act(name: str | Activation) -> Activation:
    """Look up an activation function.

    Args:
      name: One of `ACTIVATIONS`, or a function, which is returned as it is. All of them keep the
        shape except 'swiglu', which halves the last axis.

    Raises:
      ValueError: for an unknown name, with the closest valid names.
    """
    if callable(name):
        return name
    if name not in ACTIVATIONS:
        raise ValueError(
            f"Got the activation '{name}', expected one of {', '.join(ACTIVATIONS)}."
            f"{hint(name, ACTIVATIONS)}"
        )
    return ACTIVATIONS[name]


def symlog(x: Array) -> Array:
    """sign(x) log(1 + |x|), the squashing of inputs and targets (Eq. 9 of the paper)."""
    return jnp.sign(x) * jnp.log1p(jnp.abs(x))


def symexp(x: Array) -> Array:
    """sign(x) (exp(|x|) - 1), the inverse of `symlog` (Eq. 9 of the paper)."""
    return jnp.sign(x) * jnp.expm1(jnp.abs(x))


def where(condition: Array, xs: Tree, ys: Tree) -> Tree:
    """Choose between two trees per batch element.

    Args:
      condition: Boolean array [...] over the leading dims of every leaf.
      xs: Tree of arrays [..., *features] taken where the condition holds.
      ys: Tree of the same structure and shapes taken elsewhere.

    Raises:
      TypeError: if the condition is not boolean.
      ValueError: if two leaves differ in shape or the condition does not lead their shape.
    """
    condition = jnp.asarray(condition)
    if condition.dtype != bool:
        raise TypeError(f"where() got a {condition.dtype} condition, expected bool; compare first.")

    def choose(x: Array, y: Array) -> Array:
        x, y = jnp.asarray(x), jnp.asarray(y)
        if x.shape != y.shape:
            raise ValueError(f"where() got leaves of shapes {x.shape} and {y.shape}, not equal.")
        return jnp.where(_expand(condition, x.shape), x, y)

    return jax.tree.map(choose, xs, ys)


def mask(xs: Tree, keep: Array) -> Tree:
    """Zero the batch elements of every leaf [..., *features] where `keep` [...] is False.

    Gradients of masked elements are zero even if their values are infinite.
    """
    return where(keep, xs, jax.tree.map(jnp.zeros_like, xs))


def available(*trees: Tree, bdims: int | None = None) -> Tree:
    """Tell which values are given, by the convention for missing inputs.

    A float is missing where it is -inf, a signed integer where it is -1. Unsigned integers and
    booleans are always there.

    Args:
      *trees: Trees of one structure; a leaf counts only if it is available in all of them.
      bdims: Number of leading batch dims. If given, the answer is reduced over the dims behind
        them: one missing element makes the whole leaf of that batch element missing.

    Returns:
      Tree of boolean arrays, of the leaves' shapes or their first `bdims` dims.
    """

    def present(x: Array) -> Array:
        x = jnp.asarray(x)
        if jnp.issubdtype(x.dtype, jnp.floating):
            there = x != -jnp.inf
        elif jnp.issubdtype(x.dtype, jnp.signedinteger):
            there = x != -1
        else:
            there = jnp.ones(x.shape, bool)
        return there if bdims is None else there.all(tuple(range(bdims, x.ndim)))

    def combine(*leaves: Array) -> Array:
        there = present(leaves[0])
        for leaf in leaves[1:]:
            there = there & present(leaf)
        return there

    return jax.tree.map(combine, *trees)


def cast(xs: Tree, dtype: Any) -> Tree:
    """Cast the floating-point leaves of a tree; other leaves stay as they are."""

    def convert(x: Array) -> Array:
        return x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x

    return jax.tree.map(convert, xs)


def rms(xs: Tree) -> Array:
    """Root mean square over all elements of all leaves, float32 scalar; 0 for an empty tree."""
    leaves = jax.tree.leaves(xs)
    count = sum(leaf.size for leaf in leaves)
    total = sum((jnp.sum(jnp.square(leaf.astype(jnp.float32))) for leaf in leaves), jnp.float32(0))
    return jnp.sqrt(total / max(1, count))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def recall(fn: Callable[..., Array], result: Array, *args: Tree) -> Array:
    """Return what `fn(*args)` is known to be, with the gradient of computing it.

    Args:
      fn: Differentiable function of its arguments alone.
      result: Its value; carries no gradient itself.
      *args: Its arguments.
    """
    return result


def _recall_forward(
    fn: Callable[..., Array], result: Array, *args: Tree
) -> tuple[Array, tuple[Tree, ...]]:
    return result, args


def _recall_backward(fn: Callable[..., Array], args: tuple[Tree, ...], grad: Array) -> Tree:
    return None, *jax.vjp(fn, *args)[1](grad)


recall.defvjp(_recall_forward, _recall_backward)


def require_floating(x: Array, where_: str) -> None:
    """Reject inputs that are not floating point, which a matmul would silently truncate weights to.

    Raises:
      TypeError: naming the place, the dtype that was got, and what to do.
    """
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise TypeError(
            f"{where_} got a {x.dtype} input, expected floating point; cast it to the compute "
            "dtype or encode it with DictConcat or Embed."
        )


def _expand(condition: Array, shape: tuple[int, ...]) -> Array:
    """Append singleton dims to a condition so that it broadcasts over trailing dims."""
    if condition.shape != shape[: condition.ndim]:
        raise ValueError(
            f"Got a condition of shape {condition.shape} for a leaf of shape {shape}, expected "
            "its leading dims."
        )
    return condition.reshape(condition.shape + (1,) * (len(shape) - condition.ndim))
