"""Times the driver with a random policy: environment steps per second, serial and in processes.

Also tells which of the two `run.parallel` auto chooses.

python benchmarks/driver.py [--tasks dummy_disc dmc_walker_walk] [--envs 16] [--seconds 5]
"""

import argparse
import functools
import time

import yardstick
from figures import report

from dreamerv3.cli import factories
from dreamerv3.cli.presets import Presets
from embodied.core.config import Config
from embodied.core.driver import Driver
from embodied.core.random_agent import RandomAgent
from embodied.run.stepping import use_processes


def steps_per_second(config: Config, envs: int, parallel: bool, seconds: float) -> float:
    """Step environments for some seconds, after some steps to warm up."""
    makers = [functools.partial(factories.make_env, config, index) for index in range(envs)]
    with Driver(makers, parallel=parallel) as driver:
        agent = RandomAgent(driver.obs_space, driver.act_space)
        driver.reset(agent.init_policy)
        driver(agent.policy, steps=10 * envs)
        steps, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            driver(agent.policy, steps=10 * envs)
            steps += 10 * envs
        return steps / (time.perf_counter() - start)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tasks", nargs="+", default=["dummy_disc", "dmc_walker_walk"])
    parser.add_argument("--envs", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5.0)
    args = parser.parse_args()
    presets = Presets.load()
    proprio = presets.defaults.update(presets.changes("dmc_proprio"))
    yardstick.report_without_device()
    for task in args.tasks:
        config = proprio.update({"task": task})
        rates = {}
        for parallel in (False, True):
            rates[parallel] = steps_per_second(config, args.envs, parallel, args.seconds)
            name = f"driver/{task}/{'processes' if parallel else 'serial'}"
            report(name, rates[parallel], "env steps/s", envs=args.envs)
        choice = use_processes("auto", factories.EnvMaker(config), args.envs)
        details = {"envs": args.envs, "processes": choice}
        report(f"driver/{task}/auto", rates[choice], "env steps/s", **details)


if __name__ == "__main__":
    main()
