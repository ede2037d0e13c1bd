"""Choice of the platform and the devices that JAX runs on."""

import os
from collections.abc import Sequence
from typing import Any

import jax

PLATFORMS = ("auto", "cpu", "cuda", "tpu", "gpu", "rocm")
ACCELERATORS = ("gpu", "tpu")


class PlatformError(Exception):
    """The platform or the devices that were asked for are not there."""


def choose_platform(name: str = "auto", prealloc: bool = True, mock_devices: int = 0) -> str:
    """Select the JAX platform; call it before anything else uses JAX.

    Args:
      name: ``auto`` takes the best platform that is there; others are taken or refused.
      prealloc: Whether a GPU's memory is reserved at start. A value that the user has set in
        ``XLA_PYTHON_CLIENT_PREALLOCATE`` is kept.
      mock_devices: Number of CPU devices to pretend, 0 for the one that is there.

    Returns:
      The name of the platform that was chosen, for example ``cpu`` or ``gpu``.

    Raises:
      PlatformError: The platform does not exist or is not available on this machine.
    """
    if name not in PLATFORMS:
        raise PlatformError(f"Got jax.platform={name!r}, expected one of {', '.join(PLATFORMS)}.")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "true" if prealloc else "false")
    # The thread that calls computes, instead of one of many whose memory is kept apart.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    if mock_devices:
        jax.config.update("jax_num_cpu_devices", mock_devices)
    if name == "auto":
        return jax.default_backend()
    try:
        devices = jax.devices(name)
    except RuntimeError as error:
        raise PlatformError(
            f"Got jax.platform={name!r}, but this machine offers JAX only "
            f"{jax.default_backend()!r}; use --jax.platform auto or install jax with support for "
            f"it."
        ) from error
    # Of several processes, each only reaches its own.
    jax.config.update("jax_default_device", jax.local_devices(backend=name)[0])
    return devices[0].platform


def join_hosts(address: str, replica: int, replicas: int) -> None:
    """Let several processes compute together; call it before anything else uses JAX.

    Args:
      address: Of process 0, as `host:port`; empty to stay alone.
      replica: Number of this process.
      replicas: Number of processes.
    """
    if address:
        jax.distributed.initialize(address, replicas, replica)


def start_platform(options: Any) -> tuple[str, str]:
    """Choose the platform and set up JAX on it.

    Args:
      options: The section `jax` of the configuration.

    Returns:
      The names of the platform and of the compute dtype.

    Raises:
      PlatformError: The platform is not there, or has another number of devices than expected.
    """
    platform = choose_platform(options.platform, options.prealloc, options.mock_devices)
    enable_compilation_cache(options.cache)
    count = len(jax.local_devices(backend=platform))
    if options.expect_devices not in (0, count):
        raise PlatformError(
            f"Got jax.expect_devices={options.expect_devices}, but there are {count} {platform} "
            "devices; change the number or set it to 0 to take any."
        )
    return platform, compute_dtype(options.compute_dtype, platform)


def compute_dtype(name: str, platform: str) -> str:
    """Resolve the compute dtype: ``auto`` is bfloat16 on accelerators and float32 on the CPU."""
    if name == "auto":
        return "bfloat16" if platform in ACCELERATORS else "float32"
    if name not in ("float32", "bfloat16", "float16"):
        raise PlatformError(
            f"Got jax.compute_dtype={name!r}, expected auto, float32, bfloat16 or float16."
        )
    return name


def enable_compilation_cache(folder: str) -> None:
    """Keep compiled programs in a folder, so that the next start need not compile them.

    Args:
      folder: Where to keep them; ``auto`` is below the user's cache folder, empty is nowhere. A
        folder that the user has set in ``JAX_COMPILATION_CACHE_DIR`` is kept.
    """
    if not folder or os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    if folder == "auto":
        home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        folder = os.path.join(home, "dreamerv3", "jax")
    jax.config.update("jax_compilation_cache_dir", os.path.expanduser(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def default_platform() -> str:
    """Name of the platform that computes what is not placed elsewhere."""
    config: Any = jax.config
    device = config.jax_default_device
    return jax.default_backend() if device is None else str(getattr(device, "platform", device))


def describe_platform(platform: str, asked: str) -> str:
    """Say in one line which platform was chosen and why."""
    devices = jax.devices(platform)
    kind = f"{len(devices)} x {devices[0].device_kind}"
    if asked != "auto":
        return f"JAX runs on {platform} ({kind}), as asked for."
    reason = "the best that is there" if platform in ACCELERATORS else "no GPU or TPU was found"
    return f"JAX runs on {platform} ({kind}): {reason}."


def pick_devices(
    platform: str, indices: Sequence[int], option: str, process: int | None = None
) -> list[jax.Device]:
    """Return the devices with the given indices.

    Args:
      platform: Name of the platform.
      indices: Positions among the devices of a process.
      option: Name of the option, for the message.
      process: Number of the process; by default this one.

    Raises:
      PlatformError: There are fewer devices than that.
    """
    devices = jax.local_devices(process, platform)
    missing = [index for index in indices if index >= len(devices)]
    if missing:
        raise PlatformError(
            f"Got jax.{option}={list(indices)}, but there are only {len(devices)} {platform} "
            f"devices; use indices below {len(devices)}."
        )
    return [devices[index] for index in indices]
