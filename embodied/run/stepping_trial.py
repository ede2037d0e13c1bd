"""Short measurements of how long environments take to step."""

import functools
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs
from embodied.core.space import Space
from embodied.core.stepping.checked_env import CheckedEnv
from embodied.core.stepping.processes import ProcessEnvs

#: Seconds and calls after which a measurement ends.
SECONDS, CALLS = 0.25, 200


class EnvTrial:
    """Steps an environment at random for a moment, and closes it.

    Attributes:
      obs_space: Spaces of its observations without `log/` keys.
      act_space: Spaces of its actions.
      step: Median seconds of a step.
      waits: Whether most of that is waiting instead of computing.
      obs: Its last observation, without `log/` keys.
    """

    def __init__(self, make_env: Callable[[], Env], index: int) -> None:
        """Run the trial.

        Args:
          make_env: Makes the environment.
          index: Number of the environment in an error.

        Raises:
          WorkerError: If the environment cannot be made or fails.
        """
        env = CheckedEnv(index, make_env)
        try:
            self.obs_space, self.act_space = env.obs_space, env.act_space
            self._run(env)
        finally:
            env.close()

    def _run(self, env: CheckedEnv) -> None:
        rng = np.random.default_rng(0)
        spaces = {key: space for key, space in self.act_space.items() if key != "reset"}
        obs: Obs = {"is_last": True}

        def step() -> None:
            nonlocal obs
            action = {key: space.sample(rng) for key, space in spaces.items()}
            obs = env.step({**action, "reset": np.bool_(obs["is_last"])})

        self.step, computing = median_seconds(step)
        self.waits = computing < self.step / 2
        # Some environments return arrays of their own, which end with them.
        self.obs = {key: np.array(obs[key]) for key in self.obs_space}


class StandIn(Env):
    """Computes for as long as another environment and returns the same observation each time."""

    def __init__(
        self,
        spaces: tuple[Mapping[str, Space], Mapping[str, Space]],
        obs: Obs,
        iterations: int,
    ) -> None:
        """Create the environment.

        Args:
          spaces: Those of observations and actions.
          obs: What it returns.
          iterations: Of an empty loop, per step.
        """
        self._spaces, self._iterations = spaces, iterations
        self._obs = {**obs, "is_first": np.bool_(True), "is_last": np.bool_(False)}

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of what `step` returns."""
        return dict(self._spaces[0])

    @property
    def act_space(self) -> dict[str, Space]:
        """Spaces of what `step` takes."""
        return dict(self._spaces[1])

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Take some time."""
        loop(self._iterations)
        return dict(self._obs)


def loop(iterations: int) -> None:
    """Do nothing, many times."""
    for _ in range(iterations):
        pass


def seconds_in_processes(trial: EnvTrial, envs: int) -> float:
    """Measure the median seconds per step and environment of stand-ins in processes.

    Args:
      trial: How long they compute, and what they exchange.
      envs: Number of processes.

    Raises:
      WorkerError: If the processes cannot be started.
    """
    count = 10_000
    iterations = round(count * trial.step / median_seconds(lambda: loop(count))[0])
    make = functools.partial(StandIn, (trial.obs_space, trial.act_space), trial.obs, iterations)
    actions = {k: np.zeros((envs, *x.shape), x.dtype) for k, x in trial.act_space.items()}
    group = ProcessEnvs([make] * envs)
    try:
        return median_seconds(lambda: group.step(actions))[0] / envs
    finally:
        group.close()


def median_seconds(step: Callable[[], Any]) -> tuple[float, float]:
    """Call a function for a moment; return the median seconds of a call, and those of computing.

    The first call is left out, as it often takes longer. Computing counts all threads.
    """
    times: list[tuple[float, float]] = []
    begin = time.perf_counter()
    while len(times) < CALLS and (time.perf_counter() - begin < SECONDS or len(times) < 2):
        start, computing = time.perf_counter(), time.process_time()
        step()
        times.append((time.perf_counter() - start, time.process_time() - computing))
    total, busy = zip(*times[1:], strict=True)
    return statistics.median(total), statistics.median(busy)
