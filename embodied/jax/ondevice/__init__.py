"""Environments, replay, policy and updates as one compiled program; see `docs/device.md`."""

from embodied.jax.ondevice.evaluation import Evaluation
from embodied.jax.ondevice.program import OnDevice, Sizes

__all__ = ["Evaluation", "OnDevice", "Sizes"]
