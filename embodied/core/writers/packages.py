"""Which packages log outputs need, and whether they are there."""

import importlib.util

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
