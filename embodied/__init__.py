"""A toolkit for reinforcement-learning experiments that knows nothing about any agent.

`embodied.core` has no JAX; it is imported when a name below is first used, so that importing the
package costs nothing. `embodied.jax`, `embodied.envs` and `embodied.run` are imported by their
names. Imports point down: run, jax and envs may use core, never the other way around.
"""

import importlib
from types import MappingProxyType
from typing import Any

_HOMES = MappingProxyType(
    {
        "Agent": "embodied.core.interfaces",
        "Env": "embodied.core.interfaces",
        "Stream": "embodied.core.interfaces",
        "Space": "embodied.core.space",
        "Driver": "embodied.core.driver",
        "Replay": "embodied.core.replay",
        "RandomAgent": "embodied.core.random_agent",
        "Config": "embodied.core.config",
        "Flags": "embodied.core.flags",
        "Counter": "embodied.core.schedule",
        "Clock": "embodied.core.schedule",
        "Ratio": "embodied.core.schedule",
        "Logger": "embodied.core.logger",
        "Agg": "embodied.core.aggregate",
        "Timer": "embodied.core.timer",
        "Usage": "embodied.core.usage",
        "Checkpoint": "embodied.core.checkpoint",
    }
)
_MODULES = MappingProxyType(
    {
        "replay": "embodied.replay",
        "streams": "embodied.core.streams",
        "wrappers": "embodied.core.wrappers",
        "writers": "embodied.core.writers",
        "outputs": "embodied.core.writers",
    }
)

__all__ = sorted([*_HOMES, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    raise AttributeError(f"module 'embodied' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
