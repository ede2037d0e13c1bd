"""A small module system for JAX: stateful-looking code, pure functions underneath.

All state is one flat dictionary ``{'path/of/module/name': array}``. Modules read and write it
through the context of the enclosing `pure` call, so that a function that uses modules becomes
``fn(state, *args, seed=...) -> (state, out)``, which jits, differentiates and scans like any
other JAX function. The vocabulary is that of ninjax.

- `module.py`: `Module`, `make`; `variable.py`: `Variable` and `Tree`.
- `context.py`: the state of one call: `context`, `creating`, `seed`; `scope.py`: names.
- `pure.py`: `pure` and `init`; `transforms.py`: `grad`, `scan`, `cond`, `while_loop`,
  `checkpoint`, `stop_gradient`; `accumulate.py`: `accumulate`.
"""

from embodied.jax.nj.accumulate import accumulate
from embodied.jax.nj.context import Context, context, creating, seed
from embodied.jax.nj.module import Module, make
from embodied.jax.nj.pure import init, pure
from embodied.jax.nj.scope import scope
from embodied.jax.nj.transforms import checkpoint, cond, grad, scan, stop_gradient, while_loop
from embodied.jax.nj.variable import Tree, Variable

__all__ = [
    "Context",
    "Module",
    "Tree",
    "Variable",
    "accumulate",
    "checkpoint",
    "cond",
    "context",
    "creating",
    "grad",
    "init",
    "make",
    "pure",
    "scan",
    "scope",
    "seed",
    "stop_gradient",
    "while_loop",
]
