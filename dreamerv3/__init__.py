"""The DreamerV3 agent, its command line and its Python interface.

`main.py` runs experiments, `agent.py` is the agent, and `cli` the command line with what it makes
of a config. From Python, `dreamerv3.train` trains, `dreamerv3.evaluate` evaluates, and
`dreamerv3.load_policy` loads a trained agent; a callback raises `dreamerv3.StopRun` to stop a run.
"""

import importlib
from types import MappingProxyType
from typing import Any

_HOMES = MappingProxyType(
    {
        "ConfigError": "embodied.core.config",
        "StopRun": "embodied.run.callbacks",
        "evaluate": "dreamerv3.training",
        "load_policy": "dreamerv3.policy",
        "train": "dreamerv3.training",
    }
)

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    # Importing the package stays cheap for env workers and the command line.
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'dreamerv3' has no attribute '{name}'")
