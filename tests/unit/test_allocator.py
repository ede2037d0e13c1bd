"""Memory that is freed is used again, also by threads."""

import json
import os
import subprocess
import sys

import pytest

from embodied.core.allocator import VARIABLE

PROGRAM = """
import ctypes, json, os, resource, sys, threading
from embodied.core.allocator import reuse_large_buffers

reuse_large_buffers()
libc = ctypes.CDLL(None)

def work():
    for _ in range(5):
        memory = ctypes.c_void_p()
        libc.posix_memalign(ctypes.byref(memory), 64, 100_000_000)
        libc.memset(memory, 1, 100_000_000)
        libc.free(memory)

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

for repeat in range(2):
    start = faults()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
print(json.dumps([os.getpid(), sys.argv[1:], faults() - start]))
"""
PAGES = 100_000_000 // 4096


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of the C library on Linux")
@pytest.mark.parametrize("chosen", [True, False])
def test_large_buffers_are_used_again_unless_the_user_has_settings(chosen):
    env = {key: value for key, value in os.environ.items() if key != VARIABLE}
    env.update({VARIABLE: ""} if chosen else {})
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "--some", "a b"], stdout=subprocess.PIPE, text=True, env=env
    )
    output, _ = process.communicate()
    number, arguments, faults = json.loads(output)
    assert process.returncode == 0
    assert number == process.pid
    assert arguments == ["--some", "a b"]
    assert faults > 4 * PAGES if chosen else faults < PAGES
