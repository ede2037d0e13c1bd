"""What the machine can do, measured in the same run as everything else.

python benchmarks/yardstick.py
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from figures import report


def milliseconds(fn: Callable[[], Any], repeats: int = 5) -> float:
    """Return the median duration of a call, after one to warm up."""
    fn()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        fn()
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times)


def device_milliseconds(fn: Callable[[], Any], repeats: int = 5) -> float:
    """Return the median duration of a call that returns JAX arrays, until they are there."""
    # The replay is measured in a process without JAX.
    import jax

    return milliseconds(lambda: jax.block_until_ready(fn()), repeats)


def gemm_gflops(rows: int, inner: int, columns: int) -> float:
    """Return the sustained rate of float32 matrix products, in billion operations per second."""
    import jax
    import jax.numpy as jnp

    left, right = jnp.ones((rows, inner)), jnp.ones((inner, columns))
    multiply = jax.jit(lambda x, y: x @ y)
    return 2 * rows * inner * columns / device_milliseconds(lambda: multiply(left, right), 20) / 1e6


def copy_gigabytes() -> float:
    """Return the rate at which memory is copied, in gigabytes per second."""
    source = np.ones(2**25, np.float32)
    target = np.empty_like(source)
    return source.nbytes / milliseconds(lambda: np.copyto(target, source)) / 1e6


def loop_rate() -> float:
    """Return how many million iterations of an empty Python loop run per second."""

    def loop() -> None:
        for _ in range(10**6):
            pass

    return 1000 / milliseconds(loop)


def report_without_device() -> None:
    """Print what the processor can do apart from matrix products."""
    report("memory_copy", copy_gigabytes(), "GB/s")
    report("python_loop", loop_rate(), "million iterations/s")


def report_yardsticks() -> None:
    """Print what the machine can do."""
    report("gemm_1024_2560_1024", gemm_gflops(1024, 2560, 1024), "GFLOP/s")
    report("gemm_1024_640_512", gemm_gflops(1024, 640, 512), "GFLOP/s")
    report_without_device()


if __name__ == "__main__":
    report_yardsticks()
