"""Environments that change another environment."""

from embodied.core.wrappers.actions import (
    ActionRepeat,
    ClipAction,
    DiscretizeAction,
    NormalizeAction,
)
from embodied.core.wrappers.base import Wrapper
from embodied.core.wrappers.episodes import RestartOnException, TimeLimit
from embodied.core.wrappers.observations import AddObs, BackwardReturn, ResizeImage
from embodied.core.wrappers.spaces import CheckSpaces, UnifyDtypes

__all__ = [
    "ActionRepeat",
    "AddObs",
    "BackwardReturn",
    "CheckSpaces",
    "ClipAction",
    "DiscretizeAction",
    "NormalizeAction",
    "ResizeImage",
    "RestartOnException",
    "TimeLimit",
    "UnifyDtypes",
    "Wrapper",
]
