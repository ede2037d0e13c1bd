"""Distributions: what networks predict and how it is scored.

One family per file, all with the interface of `Distribution`. They know nothing about parameters or
modules; `embodied.jax.heads` makes them from features.
"""

from embodied.jax.distributions.binary import Binary
from embodied.jax.distributions.categorical import Categorical
from embodied.jax.distributions.distribution import Distribution
from embodied.jax.distributions.huber import Huber
from embodied.jax.distributions.independent import Independent
from embodied.jax.distributions.mse import MSE
from embodied.jax.distributions.normal import Normal
from embodied.jax.distributions.onehot import OneHot
from embodied.jax.distributions.twohot import TwoHot

__all__ = [
    "MSE",
    "Binary",
    "Categorical",
    "Distribution",
    "Huber",
    "Independent",
    "Normal",
    "OneHot",
    "TwoHot",
]
