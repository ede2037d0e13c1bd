"""Memory that is freed is used again, also by threads."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys, threading
import numpy as np
from embodied.core.allocator import reuse_large_buffers

if sys.argv[1] == "reuse":
    reuse_large_buffers()

def work():
    for _ in range(5):
        np.empty(100_000_000, np.uint8)[::4096] = 1  # 24,415 pages

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

for repeat in range(2):
    start = faults()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
print(faults() - start)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of the C library on Linux")
def test_threads_use_large_buffers_again():
    def page_faults(mode):
        command = [sys.executable, "-c", PROGRAM, mode]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    assert page_faults("reuse") < 24_415
    assert page_faults("default") > 4 * 24_415
