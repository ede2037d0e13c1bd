"""Settings of the C library's memory allocator."""

import ctypes
import os
import sys

VARIABLE = "GLIBC_TUNABLES"
# One heap for all threads, no memory straight from the system, freed memory is kept, and no cache
# of small pieces, which would keep the large buffers beside them from being used again.
SETTINGS = {
    "arena_max": 1,
    "mmap_max": 0,
    "trim_threshold": 2**34,
    "top_pad": 2**26,
    "tcache_count": 0,
}


def reuse_large_buffers() -> None:
    """Start the program again with an allocator that uses large buffers again, once.

    On the CPU, JAX allocates hundreds of megabytes in every update. By default, the C library
    takes them from the system and gives them back, and the system fills them with zeros page by
    page, which takes a sixth of the time of a small model's update. The library reads its
    settings from the environment when a process starts, so the process is replaced by one with
    the same command line and number. Programs that this one starts have the settings, too.

    Nothing happens on systems without the GNU C library, where the user has set `GLIBC_TUNABLES`
    to something, even to nothing, and under debuggers and profilers, which would not follow.
    """
    if VARIABLE in os.environ or not sys.executable or not _has_gnu_library() or _is_observed():
        return
    os.environ[VARIABLE] = ":".join(f"glibc.malloc.{key}={x}" for key, x in SETTINGS.items())
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def return_free_memory() -> None:
    """Give the free memory that is kept for later back to the system.

    To be called now and then, since fragments collect. What is needed again is taken again.
    """
    if _has_gnu_library():
        ctypes.CDLL(None).malloc_trim(0)


def _has_gnu_library() -> bool:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, ValueError):
        return False


def _is_observed() -> bool:
    return bool(sys.gettrace() or sys.getprofile() or "debugpy" in sys.modules)
