"""Settings of the C library's memory allocator."""

import ctypes
import sys

# Numbers of the options in malloc.h of the GNU C library.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
KEPT, PADDING = 2**31 - 1, 64 * 2**20


def reuse_large_buffers() -> None:
    """Keep freed memory in the process instead of giving it back to the system at once.

    On the CPU, JAX allocates large temporary buffers in every call. Fresh memory from the system
    has to be filled with zeros page by page, which can take as long as the computation. Other
    systems than Linux with the GNU C library are left as they are.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, KEPT)
        mallopt(M_TOP_PAD, PADDING)
