"""Environments in worker processes that cannot import JAX."""

import importlib.abc
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from embodied.core.driver import Driver
from embodied.envs import registry

pytest.importorskip("dm_control")


def make_without_jax(task, overrides, index):
    """Constructor of an environment that first makes every import of JAX an error."""

    def make():
        class Blocker(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in ("jax", "jaxlib", "dreamerv3", "torch", "tensorflow"):
                    raise AssertionError(f"An environment worker imports {name}.")

        assert "jax" not in sys.modules
        sys.meta_path.insert(0, Blocker())
        return registry.make(task, overrides, seed=0, index=index)

    return make


def zeros(carry, obs):
    size = len(obs["is_first"])
    return carry, {"action": np.zeros((size, 6), np.float32)}, {}


def test_control_suite_in_workers_without_jax():
    constructors = [make_without_jax("dmc_walker_walk", {"image": False}, i) for i in range(2)]
    seen = {0: [], 1: []}
    with Driver(constructors) as driver:
        driver.on_step(lambda tran, worker: seen[worker].append(tran["orientations"]))
        driver(zeros, steps=40)
    assert len(seen[0]) == len(seen[1]) == 20
    assert (seen[0][0] != seen[1][0]).any()


@pytest.mark.parametrize("task", ["dummy_disc", "toy_memory", "gymnasium_CartPole-v1"])
def test_other_suites_in_a_worker_without_jax(task):
    if task.startswith("gymnasium"):
        pytest.importorskip("gymnasium")
    space = registry.make(task).act_space
    rewards = []

    def policy(carry, obs):
        actions = {key: np.zeros((1, *x.shape), x.dtype) for key, x in space.items()}
        return carry, {key: x for key, x in actions.items() if key != "reset"}, {}

    with Driver([make_without_jax(task, {}, 0)]) as driver:
        driver.on_step(lambda tran, worker: rewards.append(float(tran["reward"])))
        driver(policy, episodes=2)
    assert len(rewards) > 10


@pytest.mark.slow
def test_same_seed_gives_the_same_run_in_processes_and_without():
    def run(parallel):
        seen = []
        constructors = [
            make_without_jax("dmc_walker_walk", {"image": False}, i)
            if parallel
            else lambda i=i: registry.make("dmc_walker_walk", {"image": False}, seed=0, index=i)
            for i in range(2)
        ]
        with Driver(constructors, parallel=parallel) as driver:
            driver.on_step(lambda tran, worker: seen.append(tran["orientations"]))
            driver(zeros, steps=40)
        return np.stack(seen)

    assert (run(True) == run(False)).all()


def test_every_module_of_the_package_imports_without_jax():
    script = """
        import importlib, pkgutil, sys
        sys.modules['jax'] = sys.modules['jaxlib'] = None
        import embodied.envs
        for module in pkgutil.iter_modules(embodied.envs.__path__):
            if module.name == 'pure':  # Environments written in JAX.
                continue
            importlib.import_module(f'embodied.envs.{module.name}')
            print(module.name)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    assert "registry" in result.stdout
    assert "dmc" in result.stdout
