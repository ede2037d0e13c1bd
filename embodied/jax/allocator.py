"""The C library's memory allocator."""

import ctypes
import sys
from typing import Any

# Names of the options in malloc.h, and the largest value that `mallopt` takes.
M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4
NEVER = 2**31 - 1


def release_free_memory() -> None:
    """Give memory that is free now back to the system, as after compiling, which takes a lot.

    Other systems than Linux with the GNU C library are left as they are.
    """
    trim = _function("malloc_trim")
    if trim is not None:
        trim(0)


def keep_free_memory() -> None:
    """Let the main thread keep what it frees from now on, to use it again.

    By default each large buffer is fresh memory from the system, page by page and filled with
    zeros, which for the temporary buffer of an update takes some 7% of its time. Other systems
    than Linux with the GNU C library are left as they are.
    """
    option = _function("mallopt")
    if option is not None:
        option(M_MMAP_MAX, 0)
        option(M_TRIM_THRESHOLD, NEVER)


def _function(name: str) -> Any:
    return getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None
