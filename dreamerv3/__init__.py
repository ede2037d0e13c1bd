"""The DreamerV3 agent and its command line.

`main.py` runs experiments, `agent.py` is the agent, and `cli` the command line with what it makes
of a config. `dreamerv3.load_policy` loads a trained agent.
"""

from typing import Any

__all__ = ["load_policy"]


def __getattr__(name: str) -> Any:
    # Importing the package stays cheap for env workers and the command line.
    if name == "load_policy":
        from dreamerv3.policy import load_policy

        return load_policy
    raise AttributeError(f"module 'dreamerv3' has no attribute '{name}'")
