"""The agent that a config names: its class, and its options from a file of the user's.

docs/agents.md shows how to write one. The default is that of this package; any other class is
imported by its path, like an environment.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import pathlib
import re
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ruamel.yaml.error import MarkedYAMLError, YAMLError

from embodied.core.config import Config, ConfigError, Value
from embodied.core.interfaces import Agent
from embodied.core.suggest import hint

DEFAULT = "dreamerv3.agent:Dreamer"

#: What a model that `embodied.jax` compiles has to have; `embodied.jax.model.Model` has most of it.
MODEL_PARTS = (
    "init_policy", "init_train", "init_report", "policy", "train", "report", "ext_space",
    "policy_keys", "partition_rules",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class AgentClass:
    """A class of agents.

    Attributes:
      make: The constructor, called as `make(obs_space, act_space, config)`; that of a model takes
        the compute dtype as fourth argument.
      acts_itself: Whether it is an `embodied.Agent`, and not a model that has to be compiled.
    """

    make: Callable[..., Any]
    acts_itself: bool


def load(path: str) -> AgentClass:
    """Import the class of an agent.

    The current directory is searched last, as a script started from elsewhere does not have it on
    its path.

    Args:
      path: Where the class is, as `package.module:Class`.

    Raises:
      ConfigError: If there is no such class, its module cannot be imported, or it is neither a
        model nor an `embodied.Agent`.
    """
    module, _, name = path.partition(":")
    if not re.fullmatch(r"\w+(\.\w+)*:\w+", path):
        raise ConfigError(f"Option 'agent_class' is '{path}', expected package.module:Class.")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        namespace = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"The agent '{path}' cannot be imported: there is no module '{error.name}', which has "
            "to be installed or in the current directory."
        ) from error
    except Exception as error:  # Whatever the user's module raises.
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise ConfigError(f"The agent '{path}' cannot be imported ({reason}).") from error
    target = getattr(namespace, name, None)
    if not isinstance(target, type):
        classes = [key for key, value in vars(namespace).items() if isinstance(value, type)]
        raise ConfigError(f"There is no class '{name}' in '{module}'.{hint(name, classes)}")
    acts_itself = issubclass(target, Agent)
    abstract = getattr(target, "__abstractmethods__", ())
    missing = [key for key in MODEL_PARTS if not hasattr(target, key) or key in abstract]
    if acts_itself:
        missing = sorted(abstract)
    if missing:
        kind = "an embodied.Agent" if acts_itself else "a model or a subclass of embodied.Agent"
        raise ConfigError(
            f"The class '{path}' cannot be used as {kind}, as it has no {', '.join(missing)}; "
            "see docs/agents.md."
        )
    return AgentClass(target, acts_itself)


def read_options(path: str | os.PathLike[str], taken: Collection[str]) -> dict[str, Value]:
    """Read the options of an agent from a YAML file.

    Args:
      path: The file.
      taken: Names that an agent's own options cannot have.

    Returns:
      The options by dotted name, which starts with `agent.`.

    Raises:
      ConfigError: If the file cannot be read, is no YAML, does not hold options by name, or has
        names that are taken.
    """
    try:
        options = Config.load(pathlib.Path(path))
    except OSError as error:
        raise ConfigError(
            f"Cannot read the agent's options in {path}: {error.strerror}."
        ) from error
    except MarkedYAMLError as error:
        mark = error.problem_mark
        place = f" (line {mark.line + 1})" if mark else ""
        raise ConfigError(f"{path} is no YAML{place}: {error.problem}.") from error
    except (UnicodeDecodeError, YAMLError) as error:
        raise ConfigError(f"{path} is no YAML: {' '.join(str(error).split())}.") from error
    except ConfigError as error:
        raise ConfigError(f"In {path}: {error}") from error
    if clashes := sorted(set(options) & set(taken)):
        raise ConfigError(
            f"{path} has {', '.join(clashes)}, which every agent is given anyway; choose another "
            "name for options of the agent itself."
        )
    return {f"agent.{key}": value for key, value in options.flat.items()}


def replace_options(config: Config, options: Mapping[str, Value]) -> Config:
    """Put other options in place of the section `agent`.

    Args:
      config: The whole config.
      options: The new options by dotted name, with `agent.`.
    """
    others = {key: value for key, value in config.flat.items() if not key.startswith("agent.")}
    return Config({**others, **options})
