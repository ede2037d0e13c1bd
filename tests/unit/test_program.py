"""The process that a shell has started."""

import subprocess
import sys

import pytest

PROGRAM = """
import subprocess, sys
from embodied.core.program import run_program

def main():
    print("caf\\u00e9 \\u2713", flush=True)
    print("\\u2713", file=sys.stderr)
    subprocess.run([sys.executable, "-c", "print('child \\u2713')"], check=True)
    return 3

run_program(main)
"""


@pytest.mark.parametrize("encoding", ["ascii", "gbk", "latin-1"])
def test_characters_that_the_terminal_lacks_are_replaced(encoding, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=False)
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith(b"caf")
    assert b"?" in done.stdout
    assert b"Traceback" not in done.stderr
