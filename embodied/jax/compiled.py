"""Functions compiled ahead of their first call, and the random keys of their calls."""

import enum
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from embodied.core.config import Config

Signature = tuple[Any, ...]
FAST_COMPILATION = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}


class Use(enum.IntEnum):
    """What a random key is for.

    Evaluations have keys of their own, so that how often one looks has no influence on training.
    """

    INIT = 0
    POLICY = 1
    TRAIN = 2
    REPORT = 3
    EVAL = 4
    WORLDS = 5
    REPLAY = 6


def random_key(seed: int, use: Use, *numbers: int) -> np.ndarray:
    """Draw a random key, uint32 [2], that depends on nothing but the arguments.

    Args:
      seed: Seed of the run.
      use: What it is for.
      *numbers: What tells the call apart from others of its kind, such as a count.
    """
    return np.random.default_rng((seed, int(use), *numbers)).integers(0, 2**32, 2, np.uint32)


class CompiledFunction:
    """Compiles a function once per shape of its last argument.

    The shapes of all other arguments are those of the first compilation, which is what makes the
    look-up cheap.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        donate: tuple[int, ...] = (),
        enabled: bool = True,
        options: dict[str, Any] | None = None,
        debug_nans: bool = False,
        layout: Any = None,
    ) -> None:
        """Wrap `fn`.

        Args:
          fn: Pure function of arrays.
          donate: Positions of the arguments whose buffers may be reused for the outputs.
          enabled: Whether to compile at all; else `fn` runs operation by operation.
          options: Options of the compiler.
          debug_nans: Whether outputs that are not a number are an error.
          layout: Shardings of the outputs, one for each or for a whole part of them; None leaves
            them to the compiler.
        """
        self._fn = fn
        self._jitted = jax.jit(fn, donate_argnums=donate, out_shardings=layout)
        self._enabled = enabled
        self._options = options
        self._debug_nans = debug_nans
        self._compiled: dict[Signature, Callable[..., Any]] = {}

    def compile(self, *args: Any) -> None:
        """Compile for the shapes of `args`, unless that has been done."""
        signature = _signature(args[-1])
        if self._enabled and signature not in self._compiled:
            self._compiled[signature] = self._jitted.lower(*args).compile(self._options)

    def __call__(self, *args: Any) -> Any:
        """Call the function, compiling it first for shapes that are new.

        Raises:
          FloatingPointError: With `debug_nans`, an output is not a number; the message names it.
        """
        outputs = self._run(*args)
        if self._debug_nans:
            _refuse_nans(outputs)
        return outputs

    def _run(self, *args: Any) -> Any:
        if not self._enabled:
            return self._fn(*args)
        signature = _signature(args[-1])
        if signature not in self._compiled:
            self.compile(*args)
        return self._compiled[signature](*args)


class Compiler:
    """Makes compiled functions that follow the options of `jax`."""

    def __init__(self, options: Config, platform: str) -> None:
        """Take over the options.

        Args:
          options: The section `jax` of the configuration.
          platform: The platform that was chosen.
        """
        self._enabled = options.jit
        self._debug = options.debug
        self._options = FAST_COMPILATION if options.debug and platform == "cpu" else None

    def __call__(
        self,
        fn: Callable[..., Any],
        donate: tuple[int, ...],
        layout: Any = None,
        debug_nans: bool = True,
    ) -> CompiledFunction:
        """Wrap a function; see `CompiledFunction` for the arguments.

        With `debug_nans`, outputs are checked where the option `debug` asks for it.
        """
        check = self._debug and debug_nans
        return CompiledFunction(fn, donate, self._enabled, self._options, check, layout)


def _signature(tree: Any) -> Signature:
    return tuple((x.shape, x.dtype) for x in jax.tree.leaves(tree))


def _refuse_nans(outputs: Any) -> None:
    for path, value in jax.tree_util.tree_leaves_with_path(outputs):
        if jnp.issubdtype(value.dtype, jnp.inexact) and jnp.isnan(value).any():
            name = jax.tree_util.keystr(path, simple=True, separator="/")
            raise FloatingPointError(f"The output {name!r} contains values that are not a number.")
