"""Output distributions: what networks predict and how it is scored.

One family per file, all with the interface of `Output`. They know nothing about parameters or
modules; `embodied.jax.heads` makes them from features.
"""

from embodied.jax.outputs.agg import Agg
from embodied.jax.outputs.binary import Binary
from embodied.jax.outputs.categorical import Categorical
from embodied.jax.outputs.huber import Huber
from embodied.jax.outputs.mse import MSE
from embodied.jax.outputs.normal import Normal
from embodied.jax.outputs.onehot import OneHot
from embodied.jax.outputs.output import Output
from embodied.jax.outputs.twohot import TwoHot

__all__ = ["MSE", "Agg", "Binary", "Categorical", "Huber", "Normal", "OneHot", "Output", "TwoHot"]
