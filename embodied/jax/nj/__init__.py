"""A small module system for JAX: stateful-looking code, pure functions underneath.

All state is one flat dictionary ``{'path/of/module/name': array}``. Modules read and write it
through the context of the enclosing `pure` call, so that a function that uses modules becomes
``fn(state, *args, seed=...) -> (state, out)``, which jits, differentiates and scans like any
other JAX function. The vocabulary is that of ninjax.

- `context.py`: names (`scope`), the state of one call (`context`, `creating`, `seed`), and `pure`
  and `init`, which run code that uses modules on an explicit state.
- `module.py`: `Module`, `make`, and modules that are no more than arrays: `Variable`, `Tree`.
- `transforms.py`: `grad`, `scan`, `recall`, `cond`, `while_loop`, `checkpoint`, `stop_gradient`.
"""

from embodied.jax.nj.context import Context, context, creating, init, pure, scope, seed
from embodied.jax.nj.module import Module, Tree, Variable, make
from embodied.jax.nj.transforms import (
    checkpoint,
    cond,
    grad,
    recall,
    scan,
    stop_gradient,
    while_loop,
)

__all__ = [
    "Context",
    "Module",
    "Tree",
    "Variable",
    "checkpoint",
    "cond",
    "context",
    "creating",
    "grad",
    "init",
    "make",
    "pure",
    "recall",
    "scan",
    "scope",
    "seed",
    "stop_gradient",
    "while_loop",
]
