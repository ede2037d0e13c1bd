"""Distributions: what networks predict and how it is scored.

All have the interface of `Distribution`. They know nothing about parameters or modules;
`embodied.jax.heads` makes them from features. Discrete ones are in `categorical.py`, continuous
ones in `continuous.py`, the one of rewards and values in `twohot.py`.
"""

from embodied.jax.distributions.categorical import Binary, Categorical, OneHot
from embodied.jax.distributions.continuous import MSE, Huber, Normal
from embodied.jax.distributions.distribution import Distribution, Independent
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
