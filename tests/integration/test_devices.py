"""Several devices compute the same, and refuse what does not fit (mock devices of the CPU)."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from dreamerv3.cli import command_line
from embodied.core.config import ConfigError
from embodied.run.parallel.scripts import resolve

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = pathlib.Path(__file__).parent / "device_program.py"

HOSTS = ("--jax.coordinator_address", "localhost:1", "--replicas", "2")


def start(folder, layouts, updates, *hosts):
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(folder), ",".join(layouts), str(updates), *hosts],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def result(process):
    output, errors = process.communicate(timeout=500)
    assert process.returncode == 0, errors
    return json.loads(output.splitlines()[-1])


@pytest.mark.slow
def test_layouts_give_the_same_losses_and_share_checkpoints(tmp_path):
    found = result(start(tmp_path, ("one", "mixed"), 20))
    assert len(found["one"]) >= 20
    # Parameters are copied where only the batch is split, and held in parts where they are split.
    for layout, share in {"one": 1, "mixed": 1 / 4}.items():
        np.testing.assert_allclose(found[layout], found["one"], rtol=1e-4, err_msg=layout)
        assert abs(found[f"{layout}/share"] - share) < 0.3, layout


# Several processes add up gradients in an order that depends on the place in the array, so that
# two columns of a kernel with the same gradient come to differ in the last bit. The outermost bins
# of a two-hot output are such columns until a target reaches them, and as they lie at 5e8, one bit
# of their probability moves the prediction by 6. So outputs are compared that do not amplify it.
SMOOTH = ["--agent.rewhead.output", "symlog_mse", "--agent.value.output", "symlog_mse"]


@pytest.mark.slow
def test_two_processes_give_the_same_losses_and_share_checkpoints(tmp_path):
    updates = 6  # Two processes on two cores wait for each other hundreds of times in each.
    one = result(start(tmp_path, ("one",), updates, *SMOOTH))["one"]
    assert len(one) >= updates
    hosts = ["--replicas", "2", "--jax.mock_devices", "2"]
    hosts += ["--jax.coordinator_address", resolve("localhost:{auto}")]
    hosts += ["--clock_addr", resolve("localhost:{auto}")]
    options = [("hosts",), updates, *SMOOTH, *hosts]
    processes = [start(tmp_path, *options, "--replica", str(i)) for i in range(2)]
    first, second = map(result, processes)
    assert first == second
    np.testing.assert_allclose(first["hosts"], one, rtol=1e-4)
    assert first["hosts/share"] < 0.6


def test_batches_that_cannot_be_split():
    for flags, message in {
        ("--jax.train_devices", "0", "1", "2"): r"'batch_size' is 16, .* over 3 devices",
        ("--jax.policy_devices", "0", "1", "2"): r"'run.envs' is 16, .* over 3 devices",
        ("--jax.train_mesh", "2", "1", "1"): r"'jax.train_mesh' is \[2, 1, 1\].* 1 'jax.train_dev",
        (*HOSTS, "--jax.train_mesh", "1", "1", "2"): "over 2 devices.* each has 1 'jax.train_dev",
        (*HOSTS, "--jax.train_mesh", "1", "1", "-1"): "over 2 devices.* each has 1 'jax.train_dev",
    }.items():
        with pytest.raises(ConfigError, match=message):
            command_line.parse(flags)
    command_line.parse(
        [*HOSTS, "--jax.train_devices", "0", "1", "--jax.train_mesh", "-1", "1", "2"]
    )
