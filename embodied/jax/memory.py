"""Whether the state of a model fits into the memory of the devices that hold it."""

import math
from collections.abc import Mapping

import jax
import psutil

from embodied.jax.platform import PlatformError

GIGABYTE = 1024**3
#: Parameters beyond which one waits long for an update without an accelerator.
LARGE_ON_CPU = 20_000_000


def check_memory(shapes: Mapping[str, jax.ShapeDtypeStruct]) -> None:
    """Refuse state that a device has no room for, before anything is allocated.

    Args:
      shapes: Shape and dtype of all state by path, with its layout on devices.

    Raises:
      PlatformError: Parameters and optimizer alone take more than there is.
    """
    needed: dict[jax.Device, int] = {}
    for value in shapes.values():
        assert value.sharding is not None, "the layout is known"
        size = value.dtype.itemsize * math.prod(value.sharding.shard_shape(value.shape))
        for device in value.sharding.addressable_devices:
            needed[device] = needed.get(device, 0) + size
    for device, size in needed.items():
        # The devices of a CPU share one memory.
        size = sum(needed.values()) if device.platform == "cpu" else size
        free = free_memory(device)
        if free is not None and size > free:
            raise PlatformError(
                f"Parameters and optimizer take {size / GIGABYTE:.3g} GB on {device.platform}, "
                f"where {free / GIGABYTE:.3g} GB are available: choose a smaller preset, such as "
                "size12m, or smaller observations; dreamerv3 doctor says what takes how much."
            )


def describe_size(shapes: Mapping[str, jax.ShapeDtypeStruct], platform: str) -> str:
    """Say how large a model is, and what that means on a CPU.

    Args:
      shapes: Shape and dtype of all state by path, that of the optimizer below `opt/`.
      platform: What it is computed on.
    """
    size = sum(value.dtype.itemsize * math.prod(value.shape) for value in shapes.values())
    count = sum(
        math.prod(value.shape) for path, value in shapes.items() if not path.startswith("opt/")
    )
    text = f"Agent:    {count:,} parameters, {size / GIGABYTE:.3g} GB with the optimizer"
    if platform == "cpu" and count > LARGE_ON_CPU:
        text += (
            "\nWarning:  At this size, compiling takes minutes on a CPU and every update tens of "
            "seconds or more; --configs size1m is for looking around."
        )
    return text


def free_memory(device: jax.Device) -> int | None:
    """Bytes that a device has left, None if it does not tell."""
    if device.platform == "cpu":
        return int(psutil.virtual_memory().available)
    stats = device.memory_stats() or {}
    limit = stats.get("bytes_limit")
    return None if limit is None else int(limit) - int(stats.get("bytes_in_use", 0))
