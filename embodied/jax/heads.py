"""Heads: the last layers of a network, which turn features into output distributions."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from embodied.core.space import Space
from embodied.core.suggest import hint
from embodied.jax import distributions as dists
from embodied.jax import layers as nn
from embodied.jax import nj
from embodied.jax.layers.layer import Init

DISCRETE = ("binary", "categorical", "onehot")
CONTINUOUS = (
    "mse",
    "symlog_mse",
    "huber",
    "symexp_twohot",
    "bounded_normal",
    "normal_logstd",
)
BINS_LIMIT = 20.0


class _HeadOptions(nj.Module):
    """Hyper-parameters of a head; each output reads those that concern it.

    Attributes:
      outscale: Factor on the initial kernels.
      winit: Initializer of the kernels.
      bias: Whether the linear layers have biases.
      unimix: Share of the uniform distribution in 'categorical' and 'onehot'.
      bins: Number of bins of 'symexp_twohot'.
      minstd: Smallest standard deviation of 'bounded_normal'.
      maxstd: Largest standard deviation of 'bounded_normal'.
      tolerance: Squared errors of 'mse' and 'symlog_mse' below it count as zero.
      unsquash: Whether 'symlog_mse' predicts in the space of the data instead of symlog space.
    """

    outscale: float = 1.0
    winit: Init = "trunc_normal_in"
    bias: bool = True
    unimix: float = 0.0
    bins: int = 255
    minstd: float = 1.0
    maxstd: float = 1.0
    tolerance: float = 0.0
    unsquash: bool = False

    @property
    def _head_options(self) -> dict[str, Any]:
        """The options above, to be handed to heads inside of this one."""
        return {key: getattr(self, key) for key in _HeadOptions._fields}


class Head(_HeadOptions):
    """Linear layers that predict one value, as a distribution (spec rows 1.4 and 1.8 to 1.11).

    Parameters: ``logit`` for 'binary'; ``logits`` for 'categorical', 'onehot', 'symexp_twohot';
    ``pred`` for 'mse', 'symlog_mse', 'huber'; ``mean`` and ``stddev`` for 'bounded_normal' and
    'normal_logstd'; each with ``kernel`` and ``bias``.
    """

    def __init__(self, space: Space, output: str) -> None:
        """Set what is predicted and how.

        Args:
          space: Space of the value.
          output: One of `DISCRETE` for discrete spaces, of `CONTINUOUS` for others.

        Raises:
          ValueError: The output does not exist or does not fit the space.
        """
        valid = DISCRETE if space.discrete else CONTINUOUS
        if output not in valid:
            raise ValueError(
                f"Got the output '{output}' for the head '{self.path}' of {space}, expected one "
                f"of {', '.join(valid)}.{hint(output, valid)}"
            )
        if output == "binary" and (np.any(space.classes != 2) or np.any(space.low != 0)):
            raise ValueError(
                f"Got {space} for the binary head '{self.path}', expected a boolean space or one "
                f"of 0 and 1; choose the output 'categorical'."
            )
        self.space = space
        self.output = output

    def __call__(self, x: jax.Array) -> dists.Distribution:
        """Map features [..., F] to a distribution over values [..., *space.shape].

        Losses, log probabilities and entropies are summed over the dimensions of the space.
        """
        output = getattr(self, f"_{self.output}")(x)
        dims = len(self.space.shape)
        return dists.Independent(output, dims, jnp.sum) if dims else output

    def _binary(self, x: jax.Array) -> dists.Distribution:
        return dists.Binary(self._linear("logit", x))

    def _categorical(self, x: jax.Array) -> dists.Distribution:
        logits = self._linear("logits", x, int(np.max(self.space.classes)))
        return dists.Categorical(logits, self.unimix, self.space.classes, self.space.low)

    def _onehot(self, x: jax.Array) -> dists.Distribution:
        logits = self._linear("logits", x, int(np.max(self.space.classes)))
        return dists.OneHot(logits, self.unimix, self.space.classes)

    def _mse(self, x: jax.Array) -> dists.Distribution:
        return dists.MSE(self._linear("pred", x), tolerance=self.tolerance)

    def _symlog_mse(self, x: jax.Array) -> dists.Distribution:
        unsquash = nn.symexp if self.unsquash else None
        return dists.MSE(self._linear("pred", x), nn.symlog, self.tolerance, unsquash)

    def _huber(self, x: jax.Array) -> dists.Distribution:
        return dists.Huber(self._linear("pred", x))

    def _symexp_twohot(self, x: jax.Array) -> dists.Distribution:
        return dists.TwoHot(self._linear("logits", x, self.bins), symexp_bins(self.bins))

    def _bounded_normal(self, x: jax.Array) -> dists.Distribution:
        """Squash mean and deviation in the compute dtype, as the public code (spec row 3.13)."""
        mean = jnp.tanh(self._linear("mean", x))
        share = jax.nn.sigmoid(self._linear("stddev", x) + 2.0)
        stddev = (self.maxstd - self.minstd) * share + self.minstd
        return dists.Normal(mean, stddev, self.minstd, self.maxstd)

    def _normal_logstd(self, x: jax.Array) -> dists.Distribution:
        mean = self._linear("mean", x)
        return dists.Normal(mean, jnp.exp(self._linear("stddev", x).astype(jnp.float32)))

    def _linear(self, name: str, x: jax.Array, *sizes: int) -> jax.Array:
        """Map [..., F] to [..., *space.shape, *sizes]."""
        options = {"outscale": self.outscale, "winit": self.winit, "bias": self.bias}
        return self.sub(name, nn.Linear, (*self.space.shape, *sizes), **options)(x)


class DictHead(_HeadOptions):
    """One `Head` per key on the same features. Parameters: those of the heads below ``<key>``."""

    def __init__(self, spaces: Mapping[str, Space], output: str | Mapping[str, str]) -> None:
        """Set what is predicted and how.

        Args:
          spaces: Space by key.
          output: Output of all keys, or by key.

        Raises:
          ValueError: There is not exactly one output per key.
        """
        kinds = dict.fromkeys(spaces, output) if isinstance(output, str) else dict(output)
        if not spaces or kinds.keys() != spaces.keys():
            raise ValueError(
                f"Got outputs for {sorted(kinds)} of the head '{self.path}', expected one for "
                f"each of the keys {sorted(spaces)}."
            )
        self.spaces = dict(spaces)
        self.kinds = kinds

    def __call__(self, x: jax.Array) -> dict[str, dists.Distribution]:
        """Map features [..., F] to a distribution per key."""
        return {
            key: self.sub(key, Head, space, self.kinds[key], **self._head_options)(x)
            for key, space in self.spaces.items()
        }


class MLPHead(_HeadOptions):
    """An MLP with a head on top (spec row 1.4); `outscale` concerns the head only.

    Parameters: those of the `MLP` below ``mlp`` and of the `Head` or `DictHead` below ``head``.

    Attributes:
      act: Activation of the MLP.
      norm: Kind of norm of the MLP.
      stats: Statistics of the norms, see `Norm`.
      layers: Number of hidden layers.
      units: Width of the hidden layers.
    """

    layers: int
    units: int
    act: str = "silu"
    norm: str = "rms"
    stats: str = "float32"

    def __init__(self, space: Space | Mapping[str, Space], output: str | Mapping[str, str]) -> None:
        """Set what is predicted and how.

        Args:
          space: Space of the value, or spaces by key.
          output: Output as for `Head`, or with several spaces as for `DictHead`.

        Raises:
          ValueError: The output does not fit the space.
        """
        self.space = space
        self.output = output
        if isinstance(space, Space) and not isinstance(output, str):
            raise ValueError(
                f"Got several outputs {dict(output)} for the head '{self.path}' of one value; "
                f"give one output, or spaces by key."
            )

    def first(self, x: jax.Array, bdims: int = 1) -> jax.Array:
        """Return what the first layer makes of features: what `__call__` can be told.

        Arguments are those of `__call__`; the result has the shape [*batch, units].
        """
        return self._mlp.first(_flat(x, bdims))

    def __call__(self, x: jax.Array, bdims: int = 1, first: jax.Array | None = None) -> Any:
        """Map features to a distribution, or to one per key.

        Args:
          x: Features [*batch, *features], the latter are flattened.
          bdims: Number of batch dimensions.
          first: The output of `first` for them, if it is known already.

        Returns:
          A `Distribution` with batch dimensions ``batch``, or a dictionary of them.
        """
        x = self._mlp(_flat(x, bdims), first)
        kind: Any = Head if isinstance(self.space, Space) else DictHead
        return self.sub("head", kind, self.space, self.output, **self._head_options)(x)

    @property
    def _mlp(self) -> nn.MLP:
        options = {"act": self.act, "norm": self.norm, "stats": self.stats}
        linear = {"winit": self.winit, "bias": self.bias}
        return self.sub("mlp", nn.MLP, self.layers, self.units, **options, **linear)


def _flat(x: jax.Array, bdims: int) -> jax.Array:
    return x.reshape((*x.shape[:bdims], -1))


def symexp_bins(count: int) -> np.ndarray:
    """Return `count` bins that are equally spaced in symlog space from -20 to 20 (spec row 1.9).

    Float32 and exactly antisymmetric, so that equal probabilities have the expectation zero. With
    an even number of bins there are two at zero.

    Raises:
      ValueError: There are fewer than two bins.
    """
    if count < 2:
        raise ValueError(f"Got {count} bins for a two-hot output, expected at least 2.")
    with jax.ensure_compile_time_eval():
        half = jnp.linspace(-BINS_LIMIT, 0, (count + 1) // 2, dtype=jnp.float32)
        lower = np.asarray(nn.symexp(half))
    return np.concatenate([lower, -lower[::-1][count % 2 :]])
