"""What does not fit into memory is refused before anything is allocated."""

import types

import jax
import numpy as np
import psutil
import pytest
from jax.sharding import SingleDeviceSharding

from embodied.jax.memory import check_memory, describe_size, free_memory
from embodied.jax.platform import PlatformError


def shapes(*sizes):
    sharding = SingleDeviceSharding(jax.devices("cpu")[0])
    return {
        f"layer{index}/kernel": jax.ShapeDtypeStruct(size, np.float32, sharding=sharding)
        for index, size in enumerate(sizes)
    }


def test_state_that_is_larger_than_the_memory(monkeypatch):
    memory = types.SimpleNamespace(available=2 * 1024**3)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    check_memory(shapes((1024, 1024, 256), (1024, 1024, 255)))
    with pytest.raises(PlatformError, match=r"take 2\.0. GB on cpu, where 2 GB are available"):
        check_memory(shapes((1024, 1024, 256), (1024, 1024, 260)))


def test_size_is_said_and_what_it_means_on_a_cpu():
    small = {**shapes((1000, 1000)), "opt/momentum": shapes((1000, 1000))["layer0/kernel"]}
    text = "Agent:    1,000,000 parameters, 0.00745 GB with the optimizer"
    assert describe_size(small, "cpu") == text
    large = shapes((5000, 5000))
    assert "--configs size1m is for looking around" in describe_size(large, "cpu")
    assert "\n" not in describe_size(large, "gpu")


def test_what_a_device_says_of_its_memory():
    def device(stats):
        return types.SimpleNamespace(platform="gpu", memory_stats=lambda: stats)

    assert free_memory(device({"bytes_limit": 10, "bytes_in_use": 4})) == 6
    assert free_memory(device(None)) is None
