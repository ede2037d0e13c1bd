"""Several devices compute the same, and refuse what does not fit (mock devices of the CPU)."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from dreamerv3 import command_line
from embodied.core.config import ConfigError
from embodied.run.parallel.messages import resolve

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = pathlib.Path(__file__).parent / "device_program.py"


def start(folder, layouts, *hosts):
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(folder), ",".join(layouts), *hosts],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def result(process):
    output, errors = process.communicate(timeout=500)
    assert process.returncode == 0, errors
    return json.loads(output.splitlines()[-1])


@pytest.mark.parametrize(
    "layouts",
    [
        pytest.param(("four", "sharded"), id="four"),
        pytest.param(("two", "mixed"), marks=pytest.mark.slow, id="mixed"),
    ],
)
def test_layouts_give_the_same_losses_and_share_checkpoints(tmp_path, layouts):
    found = result(start(tmp_path, ("one", *layouts)))
    for layout in layouts:
        np.testing.assert_allclose(found[layout], found["one"], rtol=1e-4, err_msg=layout)
    assert len(found["one"]) >= 20
    # Parameters are copied where only the batch is split, and held in parts where they are split.
    assert found["one/share"] == 1
    for layout, share in {"two": 1, "four": 1, "sharded": 1 / 4, "mixed": 1 / 4}.items():
        if layout in layouts:
            assert abs(found[f"{layout}/share"] - share) < 0.3, layout


@pytest.mark.slow
def test_two_processes_give_the_same_losses_and_share_checkpoints(tmp_path):
    one = result(start(tmp_path, ("one",)))["one"]
    layouts = ("hosts", "hosts_sharded")
    hosts = ["--replicas", "2", "--jax.mock_devices", "2"]
    hosts += ["--jax.coordinator_address", resolve("localhost:{auto}")]
    hosts += ["--clock_addr", resolve("localhost:{auto}")]
    processes = [start(tmp_path, layouts, *hosts, "--replica", str(i)) for i in range(2)]
    for process in processes:
        found = result(process)
        for layout in layouts:
            np.testing.assert_allclose(found[layout], one, rtol=1e-4, err_msg=layout)
        assert found["hosts/share"] == 1
        assert found["hosts_sharded/share"] < 0.6


def test_batches_that_cannot_be_split():
    for flags, message in {
        ("--jax.train_devices", "0", "1", "2"): r"'batch_size' is 16, .* over 3 devices",
        ("--jax.policy_devices", "0", "1", "2"): r"'run.envs' is 16, .* over 3 devices",
        ("--jax.train_mesh", "2", "1", "1"): r"'jax.train_mesh' is \[2, 1, 1\].* 1 'jax.train_dev",
    }.items():
        with pytest.raises(ConfigError, match=message):
            command_line.parse(flags)
