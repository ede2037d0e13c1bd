"""Seeds that are spread over devices learn what they learn on one (mock devices of the CPU)."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = pathlib.Path(__file__).parent / "ondevice_devices.py"


@pytest.mark.slow
def test_seeds_do_not_depend_on_the_devices_that_they_are_on():
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["updates"] > 5
    assert found["different"] < 1e-5
