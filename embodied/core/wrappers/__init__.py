"""Environments that change another environment."""

from embodied.core.wrappers.base import Wrapper

__all__ = ["Wrapper"]
