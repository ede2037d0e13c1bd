"""The C library's memory allocator."""

import ctypes
import sys


def release_free_memory() -> None:
    """Give memory that is free now back to the system, as after compiling, which takes a lot.

    Other systems than Linux with the GNU C library are left as they are.
    """
    if not sys.platform.startswith("linux"):
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
