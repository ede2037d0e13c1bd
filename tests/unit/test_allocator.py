"""Memory that is freed is used again, also by threads."""

import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, resource, sys, threading
from embodied.core.allocator import reuse_large_buffers

if sys.argv[1] == "reuse":
    reuse_large_buffers()

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p

def work():
    for _ in range(5):
        memory = ctypes.c_void_p(libc.malloc(100_000_000))
        libc.memset(memory, 1, 100_000_000)
        libc.free(memory)

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

for repeat in range(2):
    start = faults()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
print(faults() - start)
"""

PAGES = 100_000_000 // 4096


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of the C library on Linux")
def test_threads_use_large_buffers_again():
    def page_faults(mode):
        command = [sys.executable, "-c", PROGRAM, mode]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    assert page_faults("reuse") < PAGES
    assert page_faults("default") > 4 * PAGES
