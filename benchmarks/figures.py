"""Figures as lines of JSON, each with machine, versions and commit."""

import importlib.metadata
import json
import os
import pathlib
import platform
import subprocess
import sys
from typing import Any


def report(name: str, value: float, unit: str, **details: Any) -> None:
    """Print one figure as a JSON line."""
    figure = {"name": name, "value": round(value, 4), "unit": unit, **machine(), **details}
    print(json.dumps(figure), flush=True)


def machine() -> dict[str, Any]:
    """Describe machine, versions and commit; the device if this process has JAX."""
    jax = sys.modules.get("jax")
    device = {} if jax is None else {"device": jax.devices()[0].device_kind}
    return {
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        **device,
        "python": platform.python_version(),
        "numpy": importlib.metadata.version("numpy"),
        "jax": importlib.metadata.version("jax"),
        "commit": _commit(),
    }


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    folder = pathlib.Path(__file__).parent
    try:
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return result.stdout.strip()
