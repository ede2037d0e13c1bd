"""What the machine can do, measured in the same run as everything else."""

import importlib.metadata
import json
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def milliseconds(fn: Callable[[], Any], repeats: int = 5) -> float:
    """Return the median duration of a call that returns JAX arrays, after one to warm up."""
    jax.block_until_ready(fn())
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(fn())
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times)


def gemm_gflops(rows: int, inner: int, columns: int) -> float:
    """Return the sustained rate of float32 matrix products, in billion operations per second."""
    left, right = jnp.ones((rows, inner)), jnp.ones((inner, columns))
    multiply = jax.jit(lambda x, y: x @ y)
    return 2 * rows * inner * columns / milliseconds(lambda: multiply(left, right), 20) / 1e6


def copy_gigabytes() -> float:
    """Return the rate at which memory is copied, in gigabytes per second."""
    source = np.ones(2**25, np.float32)
    target = np.empty_like(source)
    return source.nbytes / milliseconds(lambda: np.copyto(target, source) or target) / 1e6


def loop_rate() -> float:
    """Return how many million iterations of an empty Python loop run per second."""

    def loop() -> np.ndarray:
        for _ in range(10**6):
            pass
        return np.zeros(1)

    return 1000 / milliseconds(loop)


def report(name: str, value: float, unit: str, **details: Any) -> None:
    """Print one figure as a JSON line."""
    figure = {"name": name, "value": round(value, 4), "unit": unit, **details}
    print(json.dumps({**figure, **machine()}), flush=True)


def report_yardsticks() -> None:
    """Print what the machine can do."""
    report("gemm_1024_2560_1024", gemm_gflops(1024, 2560, 1024), "GFLOP/s")
    report("gemm_1024_640_512", gemm_gflops(1024, 640, 512), "GFLOP/s")
    report("memory_copy", copy_gigabytes(), "GB/s")
    report("python_loop", loop_rate(), "million iterations/s")


def machine() -> dict[str, Any]:
    """Describe machine, versions and commit."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "processor": platform.machine(),
        "device": jax.devices()[0].device_kind,
        "python": platform.python_version(),
        "jax": importlib.metadata.version("jax"),
        "commit": commit,
    }
