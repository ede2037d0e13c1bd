"""The process that JAX runs in: its platform, and settings that are made once, at the start."""

import ctypes
import dataclasses
import os
import sys
from typing import Any

import jax

from embodied.core.config import Config

PLATFORMS = ("auto", "cpu", "cuda", "tpu", "gpu", "rocm")
ACCELERATORS = ("gpu", "tpu")

# Names of the options in malloc.h, and the largest value that `mallopt` takes.
M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4
NEVER = 2**31 - 1


class PlatformError(Exception):
    """The platform or the devices that were asked for are not there."""


@dataclasses.dataclass(frozen=True)
class Platform:
    """What this process computes with.

    Attributes:
      name: The kind of hardware, for example ``cpu`` or ``gpu``.
      dtype: What activations are computed in.
    """

    name: str
    dtype: str


def prepare_process(options: Config, learning: bool = False) -> Platform:
    """Make all settings of the process that agents need; call it before anything else uses JAX.

    It may be called again, with the same options. What several processes share comes before, see
    `join_hosts`.

    Args:
      options: The section `jax` of the configuration.
      learning: Whether an agent is going to learn in this process. On CPU, the process then keeps
        the memory that an update frees for the next one.

    Raises:
      PlatformError: The platform is not there, or the compute dtype does not exist.
    """
    name = choose_platform(options.platform, options.prealloc, options.mock_devices)
    enable_compilation_cache(options.cache)
    if learning and name == "cpu":
        keep_free_memory()
    return Platform(name, compute_dtype(options.compute_dtype, name))


def join_hosts(address: str, replica: int, replicas: int) -> None:
    """Let several processes compute together; call it before anything else uses JAX.

    Args:
      address: Of process 0, as `host:port`; empty to stay alone.
      replica: Number of this process.
      replicas: Number of processes.
    """
    if address:
        jax.distributed.initialize(address, replicas, replica)


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
    return str(devices[0].platform)


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


def compute_dtype(name: str, platform: str) -> str:
    """Resolve the compute dtype: ``auto`` is bfloat16 on accelerators and float32 on the CPU."""
    if name == "auto":
        return "bfloat16" if platform in ACCELERATORS else "float32"
    if name not in ("float32", "bfloat16", "float16"):
        raise PlatformError(
            f"Got jax.compute_dtype={name!r}, expected auto, float32, bfloat16 or float16."
        )
    return name


def keep_free_memory() -> None:
    """Let the main thread keep what it frees from now on, to use it again.

    By default each large buffer is fresh memory from the system, page by page and filled with
    zeros, which for the temporary buffer of an update takes some 7% of its time. Other systems
    than Linux with the GNU C library are left as they are.
    """
    option = _allocator("mallopt")
    if option is not None:
        option(M_MMAP_MAX, 0)
        option(M_TRIM_THRESHOLD, NEVER)


def release_free_memory() -> None:
    """Give memory that is free now back to the system, as after compiling, which takes a lot.

    Other systems than Linux with the GNU C library are left as they are.
    """
    trim = _allocator("malloc_trim")
    if trim is not None:
        trim(0)


def _allocator(name: str) -> Any:
    return getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None


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
