"""What writers to logging services share: packages, and under which run a folder is logged."""

import importlib.util
import os
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

_PACKAGES = {
    # Output: its package and the extra that installs it.
    "tensorboard": ("tensorboardX", "tensorboard"),
    "wandb": ("wandb", "wandb"),
    "mlflow": ("mlflow", "mlflow"),
}


def missing_package(output: str) -> str:
    """Explain what a log output lacks, in one sentence; empty if it can be used.

    Args:
      output: Name as in the option `logger.outputs`.
    """
    package, extra = _PACKAGES.get(output, ("", ""))
    if not package or importlib.util.find_spec(package):
        return ""
    return (
        f"Log output '{output}' needs the package '{package}', which is not installed; install the "
        f"extra '{extra}', in a checkout with: pip install -e '.[{extra}]'."
    )


def run_id(logdir: str | os.PathLike[str], service: str, make: Callable[[], str]) -> str:
    """Return the identifier of a run at a logging service, made at the first call.

    Every service has a file of its own, because writers work in threads of their own.

    Args:
      logdir: Folder of the run; the identifier is kept in its file `<service>_run.txt`.
      service: Name of the service.
      make: Makes a new identifier.
    """
    path = _path(logdir, service)
    known = path.read_text().strip() if path.exists() else ""
    return known or remember(logdir, service, make())


def remember(logdir: str | os.PathLike[str], service: str, identifier: str) -> str:
    """Keep the identifier of a run at a logging service, in place of an earlier one; return it."""
    path = _path(logdir, service)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(f"{identifier}\n")
    unfinished.replace(path)
    return identifier


def _path(logdir: str | os.PathLike[str], service: str) -> Path:
    return Path(logdir) / f"{service}_run.txt"


def allowed_name(key: str, forbidden: str, longest: int) -> str:
    """Return a key as a name that an output takes; keys that differ give names that differ.

    What is not allowed becomes an underscore, and a number that follows from the key tells such
    names apart, the same in every run.

    Args:
      key: Name of a metric.
      forbidden: Regular expression of what a name may not hold.
      longest: Bytes that a name may have.
    """
    name = re.sub(forbidden, "_", key)
    if name == key and len(key.encode()) <= longest:
        return key
    mark = f"_{zlib.crc32(key.encode()):08x}"
    return name.encode()[: longest - len(mark)].decode(errors="ignore") + mark


def finite(values: np.ndarray) -> np.ndarray:
    """The numbers of a vector that histograms can show, [N] float64."""
    numbers = values.astype(np.float64)
    return numbers[np.isfinite(numbers)]
