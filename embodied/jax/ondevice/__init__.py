"""Environments, replay, policy and updates as one compiled program; see `docs/device.md`."""

from embodied.jax.ondevice.program import OnDevice, Sizes

__all__ = ["OnDevice", "Sizes"]
