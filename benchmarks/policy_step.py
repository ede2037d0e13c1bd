"""Times one step of the policy, from observations to actions as NumPy arrays.

python benchmarks/policy_step.py [--sizes size1m size12m] [--envs 1 4 16] [--dtype float32]
"""

import argparse
import threading
from typing import Any

import jax
import numpy as np
import yardstick
from figures import report
from train_step import OBS, Benchmark

from dreamerv3.cli.presets import Presets
from embodied.core.config import Config
from embodied.jax.compiled import Compiler
from embodied.jax.compiled_policy import CompiledPolicy
from embodied.jax.platform import prepare_process
from embodied.jax.sharding import DeviceMesh

#: Calls that are timed together, since a single one is short.
CALLS = 20


def milliseconds(bench: Benchmark, envs: int) -> float:
    """Time one call for a number of environments."""
    options = Config({"jit": True, "debug": False})
    platform = jax.default_backend()
    mesh, compiler = DeviceMesh(jax.devices()[:1]), Compiler(options, platform)
    policy = CompiledPolicy(bench.model, OBS, mesh, compiler, 0, threading.Lock())
    policy.params = bench.params
    rng = np.random.default_rng(0)
    obs = {k: rng.normal(size=(envs, *s.shape)).astype(s.dtype) for k, s in OBS.items()}
    obs.update({key: np.zeros(envs, bool) for key in ("is_first", "is_last", "is_terminal")})
    state = [policy.initial(envs)]

    def call() -> Any:
        for _ in range(CALLS):
            state[0], action, _ = policy(state[0], obs, "train")
        return action

    return yardstick.device_milliseconds(call) / CALLS


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", nargs="+", default=["size1m", "size12m"])
    parser.add_argument("--envs", nargs="+", type=int, default=[1, 4, 16])
    parser.add_argument("--dtype", default="float32")
    args = parser.parse_args()
    prepare_process(Presets.load().defaults.jax, learning=True)
    yardstick.report_yardsticks()
    for size in args.sizes:
        bench = Benchmark(size, args.dtype)
        for envs in args.envs:
            value = milliseconds(bench, envs)
            report(f"policy_step/{size}/{args.dtype}/{envs}", value, "ms")


if __name__ == "__main__":
    main()
