"""Heads: the last layers of a network, which turn features into distributions."""

from collections.abc import Mapping
from typing import Any, NamedTuple

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
Arrays = dict[str, jax.Array]


class _HeadOptions(nj.Module):
    """Hyper-parameters of a head; each kind of output reads those that concern it.

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
    minstd: float = 0.1
    maxstd: float = 1.0
    tolerance: float = 0.0
    unsquash: bool = False

    @property
    def _head_options(self) -> dict[str, Any]:
        """The options above, to be handed to heads inside of this one."""
        return {key: getattr(self, key) for key in _HeadOptions._fields}


class Head(_HeadOptions):
    """Linear layers that predict one value, as a distribution.

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
        return self.distribution(self.linear(x))

    def linear(self, x: jax.Array) -> Arrays:
        """Return what the layers make of features [..., F]: arrays [..., *space.shape, *sizes]."""
        options = {"outscale": self.outscale, "winit": self.winit, "bias": self.bias}
        return {
            name: self.sub(name, nn.Linear, (*self.space.shape, *sizes), **options)(x)
            for name, sizes in self._layers.items()
        }

    def distribution(self, linear: Arrays) -> dists.Distribution:
        """Return the distribution that what `linear` returns stands for."""
        distribution = getattr(self, f"_{self.output}")(**linear)
        dims = len(self.space.shape)
        return dists.Independent(distribution, dims) if dims else distribution

    @property
    def _layers(self) -> dict[str, tuple[int, ...]]:
        """Linear layers by name, and what they have per value."""
        if self.output in ("categorical", "onehot"):
            return {"logits": (int(np.max(self.space.classes)),)}
        if self.output == "symexp_twohot":
            return {"logits": (self.bins,)}
        if self.output in ("bounded_normal", "normal_logstd"):
            return {"mean": (), "stddev": ()}
        return {"logit" if self.output == "binary" else "pred": ()}

    def _binary(self, logit: jax.Array) -> dists.Distribution:
        return dists.Binary(logit)

    def _categorical(self, logits: jax.Array) -> dists.Distribution:
        return dists.Categorical(logits, self.unimix, self.space.classes, self.space.low)

    def _onehot(self, logits: jax.Array) -> dists.Distribution:
        return dists.OneHot(logits, self.unimix, self.space.classes)

    def _mse(self, pred: jax.Array) -> dists.Distribution:
        return dists.MSE(pred, tolerance=self.tolerance)

    def _symlog_mse(self, pred: jax.Array) -> dists.Distribution:
        unsquash = nn.symexp if self.unsquash else None
        return dists.MSE(pred, nn.symlog, self.tolerance, unsquash)

    def _huber(self, pred: jax.Array) -> dists.Distribution:
        return dists.Huber(pred)

    def _symexp_twohot(self, logits: jax.Array) -> dists.Distribution:
        return dists.TwoHot(logits, symexp_bins(self.bins))

    def _bounded_normal(self, mean: jax.Array, stddev: jax.Array) -> dists.Distribution:
        """Squash mean and deviation in the compute dtype, as the public code does."""
        share = jax.nn.sigmoid(stddev + 2.0)
        stddev = (self.maxstd - self.minstd) * share + self.minstd
        return dists.Normal(jnp.tanh(mean), stddev, self.minstd, self.maxstd)

    def _normal_logstd(self, mean: jax.Array, stddev: jax.Array) -> dists.Distribution:
        return dists.Normal(mean, jnp.exp(stddev.astype(jnp.float32)))


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
        return self.distribution(self.linear(x))

    def linear(self, x: jax.Array) -> dict[str, Arrays]:
        """Return what the layers make of features [..., F], by key as `Head.linear`."""
        return {key: self._head(key).linear(x) for key in self.spaces}

    def distribution(self, linear: dict[str, Arrays]) -> dict[str, dists.Distribution]:
        """Return the distributions that what `linear` returns stands for."""
        return {key: self._head(key).distribution(linear[key]) for key in self.spaces}

    def _head(self, key: str) -> Head:
        return self.sub(key, Head, self.spaces[key], self.kinds[key], **self._head_options)


class Activations(NamedTuple):
    """What an `MLPHead` has computed for some features, enough for `MLPHead.recall`.

    Attributes:
      first: Output of the first layer, [*batch, units].
      last: What `Head.linear` or `DictHead.linear` returns, arrays [*batch, ...].
    """

    first: jax.Array
    last: Any


class MLPHead(_HeadOptions):
    """An MLP with a head on top; `outscale` concerns the head only.

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

    def __call__(self, x: jax.Array, bdims: int = 1) -> Any:
        """Map features to a distribution, or to one per key.

        Args:
          x: Features [*batch, *features], the latter are flattened.
          bdims: Number of batch dimensions.

        Returns:
          A `Distribution` with batch dimensions ``batch``, or a dictionary of them.
        """
        return self.distribution(self._last(_flat(x, bdims), None))

    def activations(self, x: jax.Array, bdims: int = 1) -> Activations:
        """Do the work of `__call__`, whose arguments these are, and return what can be kept."""
        first = self._mlp.first(_flat(x, bdims))
        return Activations(first, self._last(_flat(x, bdims), first))

    def distribution(self, last: Any) -> Any:
        """Return what `__call__` does, from the `last` of activations."""
        return self._head.distribution(last)

    def recall(self, x: jax.Array, known: Activations, *, steps: bool) -> Any:
        """Return what `__call__` does, for features whose activations are known.

        An ordinary distribution: what is computed from it has the gradients that it would have
        after a call, with respect to the parameters and to `x`. Only their cost is another, see
        `nj.recall`.

        Args:
          x: Features of several steps [H, ..., F].
          known: Their activations, as they are with the current parameters.
          steps: Whether the backward pass goes step by step.
        """
        compute = lambda inputs: self._last(*inputs)  # noqa: E731
        inputs = (x, jax.lax.stop_gradient(known.first))
        return self.distribution(nj.recall(compute, [self], inputs, known.last, steps=steps))

    def _last(self, x: jax.Array, first: jax.Array | None) -> Any:
        """What the last layers make of features [..., F], of which the first may be known."""
        return self._head.linear(self._mlp(x, first))

    @property
    def _mlp(self) -> nn.MLP:
        options = {"act": self.act, "norm": self.norm, "stats": self.stats}
        linear = {"winit": self.winit, "bias": self.bias}
        return self.sub("mlp", nn.MLP, self.layers, self.units, **options, **linear)

    @property
    def _head(self) -> Any:
        kind: Any = Head if isinstance(self.space, Space) else DictHead
        return self.sub("head", kind, self.space, self.output, **self._head_options)


def _flat(x: jax.Array, bdims: int) -> jax.Array:
    return x.reshape((*x.shape[:bdims], -1))


def symexp_bins(count: int) -> np.ndarray:
    """Return `count` bins that are equally spaced in symlog space from -20 to 20 (paper Eq. 10).

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
