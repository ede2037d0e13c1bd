"""Import of a class or function by its path, `package.module:Name`, or from a file.

A file holds a constructor that has no path, such as a class of a notebook or a lambda; it was
written with cloudpickle.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

import cloudpickle

from embodied.core.suggest import hint
from embodied.envs.errors import EnvError, UnknownTask

_PATTERN = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")

#: How the names of files with a constructor end.
SUFFIX = ".env.pkl"


def matches(task: str) -> bool:
    """Whether a task is an import path or the path of a file with a constructor."""
    return task.endswith(SUFFIX) or bool(_PATTERN.fullmatch(task))


def path_of(target: Callable[..., Any]) -> str:
    """Path from which other processes can import a class or function; '' if there is none."""
    module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", "")
    path = f"{module}:{name}"
    if module in (None, "__main__") or not _PATTERN.fullmatch(path):
        return ""
    found: Any = sys.modules.get(str(module))
    for attribute in name.split("."):
        found = getattr(found, attribute, None)
    return path if found is target else ""


def check(path: str) -> None:
    """Check that the module or file exists, without importing it or its parents.

    Raises:
      UnknownTask: It is neither installed nor below the current directory.
    """
    if path.endswith(SUFFIX):
        if not os.path.isfile(path):
            raise UnknownTask(
                f"There is no file {path!r} with the constructor of the environment; give the task "
                "again, with the constructor or an import path."
            )
        return
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
      EnvError: What the path names cannot be called, or a file cannot be read.
    """
    if path.endswith(SUFFIX):
        return _load_file(path)
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


def _load_file(path: str) -> Callable[..., Any]:
    try:
        with open(path, "rb") as file:
            constructor: Callable[..., Any] = cloudpickle.load(file)
    except Exception as error:  # Whatever modules raise that it needs.
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise EnvError(f"The constructor in {path!r} cannot be loaded ({reason}).") from error
    return constructor
