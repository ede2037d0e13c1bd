"""Import of a class or function by its path, `package.module:Name`."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

from embodied.core.suggest import hint
from embodied.envs.errors import EnvError, UnknownTask

PATTERN = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def check(path: str) -> None:
    """Check that the module exists, without importing it or its parents.

    Raises:
      UnknownTask: It is neither installed nor below the current directory.
    """
    module = path.partition(":")[0]
    if module in sys.modules:
        return
    search: list[str] | None = [*sys.path, os.getcwd()]
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        name = ".".join(parts[:end])
        spec: ModuleSpec | None = PathFinder.find_spec(name, search)
        if spec is None:
            raise UnknownTask(
                f"There is no module {name!r} for task {path!r}, expected package.module:Name with "
                "a module that is installed or in the current directory."
            )
        locations = spec.submodule_search_locations
        search = list(locations) if locations is not None else []


def load(path: str) -> Callable[..., Any]:
    """Import the module and return the class or function.

    The current directory is searched last, as a script started from elsewhere does not have it on
    its path.

    Raises:
      UnknownTask: The module has no such name.
      EnvError: What the path names cannot be called.
    """
    name, _, attributes = path.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    target: Any = importlib.import_module(name)
    for attribute in attributes.split("."):
        if not hasattr(target, attribute):
            public = [item for item in dir(target) if not item.startswith("_")]
            raise UnknownTask(
                f"There is no {attribute!r} in {name!r} for task {path!r}.{hint(attribute, public)}"
            )
        target = getattr(target, attribute)
    if not callable(target):
        raise EnvError(
            f"Got {type(target).__name__} at {path!r}, expected a class or function that makes an "
            "environment."
        )
    constructor: Callable[..., Any] = target
    return constructor
