"""Environments that change another environment."""

from embodied.core.wrappers.action_repeat import ActionRepeat
from embodied.core.wrappers.add_obs import AddObs
from embodied.core.wrappers.backward_return import BackwardReturn
from embodied.core.wrappers.base import Wrapper
from embodied.core.wrappers.check_spaces import CheckSpaces
from embodied.core.wrappers.clip_action import ClipAction
from embodied.core.wrappers.discretize_action import DiscretizeAction
from embodied.core.wrappers.normalize_action import NormalizeAction
from embodied.core.wrappers.resize_image import ResizeImage
from embodied.core.wrappers.restart_on_exception import RestartOnException
from embodied.core.wrappers.time_limit import TimeLimit
from embodied.core.wrappers.unify_dtypes import UnifyDtypes

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
