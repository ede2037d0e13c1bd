"""Memory that an update frees is used by the next one."""

import subprocess
import sys

import pytest

#: A program with 160 MB of intermediate results; prints the fresh pages that its last call took.
PROGRAM = """
import resource
import jax
from embodied.jax import platform

platform.choose_platform("cpu")
platform.release_free_memory()
{setting}

@jax.jit
def scan(x):
    return jax.lax.scan(lambda x, _: (x + 1, x), x, None, length=40)[1].sum()

x = jax.numpy.ones(1_000_000)
for _ in range(4):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    scan(x).block_until_ready()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
PAGES = 160_000_000 // 4096


def fresh_pages(setting: str) -> int:
    command = [sys.executable, "-c", PROGRAM.format(setting=setting)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of the GNU C library")
def test_buffers_are_used_again():
    assert fresh_pages("") > PAGES / 2
    assert fresh_pages("platform.keep_free_memory()") < PAGES / 20
