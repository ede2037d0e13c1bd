"""Ids of Gymnasium and the old `gym`: what is wrong with one, in a sentence."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

from embodied.core.suggest import hint
from embodied.envs.errors import EnvError, MissingExtra, UnknownOption, UnknownTask

#: What Python says of a keyword that a function does not have.
UNEXPECTED = re.compile(r"unexpected keyword argument '(\w+)'")


def check_id(name: str, package: str, make: str, options: Mapping[str, Any]) -> None:
    """Check an id and the options of its constructor.

    That is imported, but only called where this would not show: for an old version, which may need
    a package that nobody has any more, and for options that it may or may not take.

    Args:
      name: The id, perhaps with the module that registers it in front, `module:Name-v0`.
      package: `gymnasium` or `gym`.
      make: Name of the package's function that will make it.
      options: Keywords for that function.

    Raises:
      UnknownTask: There is no such id, or it is outdated.
      MissingExtra: A package that it needs is not installed.
      UnknownOption: Its constructor has no such keyword.
    """
    module = importlib.import_module(package)
    with translate_errors(name, package):
        spec = _find(name, module)
        known, has_any = _keywords(spec, getattr(module, make))
        unknown = [key for key in options if key not in known]
        if unknown and not has_any:
            raise UnknownOption(_no_option(unknown[0], f"{package} environment {name!r}", known))
        if unknown or _is_old(spec, package):
            getattr(module, make)(name, **options).close()


@contextlib.contextmanager
def translate_errors(name: str, package: str = "gymnasium") -> Iterator[None]:
    """Turn what a package raises when it makes an environment into errors that name the task."""
    errors = importlib.import_module(f"{package}.error")
    what = f"{package} environment {name!r}"
    try:
        yield
    except errors.DependencyNotInstalled as error:
        raise MissingExtra(f"The {what} lacks a package: {error}") from error
    except (errors.UnregisteredEnv, errors.DeprecatedEnv) as error:
        raise UnknownTask(_unknown(name, package, error)) from error
    except errors.Error as error:
        raise EnvError(f"The {what} cannot be made: {error}") from error
    except ImportError as error:
        if error.name is not None and error.name.partition(".")[0] == name.partition(":")[0]:
            reason = "import path, and there is no such module"
            message = f"The part {error.name!r} of {name!r} is an {reason}: install its package."
            raise MissingExtra(message) from error
        raise MissingExtra(f"The {what} cannot be imported: {error}") from error
    except TypeError as error:
        found = UNEXPECTED.search(str(error))
        if found is None:
            raise
        raise UnknownOption(_no_option(found[1], what, [])) from error


def _find(name: str, module: Any) -> Any:
    """Find the specification of an id, after importing the module in front of it."""
    own, colon, rest = name.partition(":")
    if colon:
        importlib.import_module(own)
    return module.spec(rest if colon else name)


def _keywords(spec: Any, make: Any) -> tuple[list[str], bool]:
    """List the keywords of the constructor behind an id, and whether it takes any others."""
    entry: Any = spec.entry_point or getattr(spec, "vector_entry_point", None)
    if isinstance(entry, str):
        path, _, attributes = entry.partition(":")
        entry = importlib.import_module(path)
        for attribute in attributes.split("."):
            entry = getattr(entry, attribute)
    known = [key for key in inspect.signature(make).parameters if key != "kwargs"]
    try:
        parameters = list(inspect.signature(entry).parameters.values())
    except (TypeError, ValueError):
        return known, True
    known += [item.name for item in parameters if item.kind != item.VAR_KEYWORD]
    return known, any(item.kind == item.VAR_KEYWORD for item in parameters)


def _is_old(spec: Any, package: str) -> bool:
    """Whether there is a newer version of an environment."""
    registry = importlib.import_module(f"{package}.envs.registration").registry
    same = [other for other in registry.values() if other.name == spec.name]
    versions = [other.version for other in same if other.namespace == spec.namespace]
    return any((version or 0) > (spec.version or 0) for version in versions)


def _no_option(key: str, what: str, known: list[str]) -> str:
    """Say that a constructor lacks a keyword."""
    names = [name for name in known if name not in ("id", "self")]
    expected = f", expected one of {', '.join(names)}" if names else ""
    return f"Unknown option {key!r} for the {what}{expected}.{hint(key, names)}"


def _unknown(name: str, package: str, error: Exception) -> str:
    """Say what is wrong with an id, and how to write that of another package."""
    reason = " ".join(str(error).split())
    message = f"{package} knows no environment {name!r}: {reason}"
    if "/" in name and ":" not in name:
        module = "ale_py" if name.startswith("ALE/") else "my_module"
        return f"{message} Name the module that registers it: {package}_{module}:{name}."
    registry = importlib.import_module(f"{package}.envs.registration").registry
    return message + hint(name.rpartition(":")[2], list(registry))
