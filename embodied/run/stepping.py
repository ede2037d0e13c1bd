"""Whether environments step faster in this process or in processes of their own."""

import functools
import os
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from embodied.core.batched_env import env_constructors
from embodied.core.driver import Driver
from embodied.core.interfaces import Env, Obs
from embodied.core.space import Space
from embodied.core.stepping.checked_env import CheckedEnv, WorkerError
from embodied.core.stepping.processes import ProcessEnvs
from embodied.run.options import RunOptions
from embodied.run.session import Session

#: A shorter `run.env_timeout` says that steps may hang, which only processes notice.
PATIENT_SECONDS = 600
#: How much faster processes have to be, as they also take memory, and seconds to start.
MARGIN = 1.25
#: Seconds of a step: shorter ones are not worth a message to a process; longer ones, nothing but
#: the number of cores has to be known for.
SHORT, LONG = 5e-5, 5e-3
#: Processes of the trial; what one of many costs shows with few.
TRIAL_PROCESSES = 4
#: Seconds that a step of a simulator takes longer where several processes share a core and its
#: caches, which those of the trial hardly use. Measured with the control suite's walker: 0.38 ms
#: per step with 16 processes on two cores, where the trial measures 0.16 ms.
CROWDED = 2e-4
#: Seconds and calls after which a measurement ends.
SECONDS, CALLS = 0.25, 200


def start_driver(
    make_env: Callable[[int], Env], options: RunOptions, envs: int, session: Session
) -> Driver:
    """Start environments, in processes where that is faster, which the session closes.

    Args:
      make_env: Makes the environment of an index, or a batch of them.
      options: Options of the run.
      envs: Number of environments.
      session: Lets a request to stop end a long wait for them.

    Raises:
      WorkerError: If an environment cannot be made.
    """
    parallel = use_processes(
        options.parallel, make_env, envs, options.env_timeout, options.env_restarts
    )
    driver = Driver(env_constructors(make_env, envs), parallel, options.env_timeout)
    session.cleanup.callback(driver.close)
    driver.on_wait(lambda: session.waiting("waiting for the environments", "env"))
    return driver


def use_processes(
    parallel: str | bool,
    make_env: Callable[[int], Env],
    envs: int,
    timeout: float = 0,
    restarts: int = 0,
) -> bool:
    """Resolve the option `run.parallel`; for `auto`, measure where it matters and print the choice.

    The trial has an environment of its own, with the index behind those of the run, which is closed
    afterwards and leaves no trace in the others.

    Args:
      parallel: `auto`, `True` or `False`.
      make_env: Makes the environment of an index. Nothing is measured if it can make a batch at
        once, which is stepped in this process anyway, or if its `needs_processes` is set.
      envs: Number of environments.
      timeout: Seconds that a step may take, 0 for any time.
      restarts: Failures of an environment that are forgiven.

    Raises:
      ValueError: If `parallel` is none of these.
      WorkerError: If an environment fails in the trial.
    """
    choices = {"auto": None, "true": True, "false": False}
    if str(parallel).lower() not in choices:
        raise ValueError(f"Got run.parallel '{parallel}', expected auto, True or False.")
    choice = choices[str(parallel).lower()]
    if choice is not None:
        return choice
    if envs == 1 or getattr(make_env, "make_batch", None) is not None:
        return False
    if 0 < timeout < PATIENT_SECONDS or restarts or getattr(make_env, "needs_processes", False):
        return True
    return _try_out(functools.partial(make_env, envs), envs)


def choose(
    step: float, waits: bool, envs: int, cores: int, in_processes: Callable[[], float]
) -> tuple[bool, str]:
    """Decide whether to use processes.

    Args:
      step: Seconds that a step of one environment takes in this process.
      waits: Whether it spends them waiting, for example for a simulator of its own, instead of
        computing.
      envs: Number of environments.
      cores: Cores that this process may use.
      in_processes: Measures the seconds per step and environment when processes step together.

    Returns:
      The choice, and a line with its reason.
    """
    measured = f"a step takes {1e3 * step:.2g} ms"
    if step < SHORT:
        processes, reason = False, "less than a message to a process"
    elif waits:
        processes, reason = True, "of which it waits for most"
    elif cores == 1:
        processes, reason = False, "and there is only one core"
    elif step > LONG:
        processes, reason = True, f"which {cores} cores can share"
    else:
        other = in_processes() + CROWDED * max(0, 1 - cores / envs)
        processes = MARGIN * other < step
        reason = f"and {1e3 * other:.2g} ms with processes"
    where = "in processes" if processes else "in this process"
    return processes, f"Stepping {envs} environments {where}: {measured}, {reason}."


def usable_cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _try_out(make_env: Callable[[], Env], envs: int) -> bool:
    cores = usable_cores()
    try:
        trial = EnvTrial(make_env, envs)
    except WorkerError as error:
        reason = f"{error.reason}\nThis is an environment that is tried before the run begins."
        raise WorkerError(error.worker, error.step, reason) from error.__cause__
    together = min(envs, cores, TRIAL_PROCESSES)
    in_processes = functools.partial(seconds_in_processes, trial, together)
    processes, reason = choose(trial.step, trial.waits, envs, cores, in_processes)
    print(reason, flush=True)
    return processes


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
