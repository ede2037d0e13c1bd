"""Whether environments step faster in this process or in processes of their own."""

import functools
import os
from collections.abc import Callable

from embodied.core.interfaces import Env
from embodied.core.stepping.checked_env import WorkerError
from embodied.run.stepping_trial import EnvTrial, seconds_in_processes

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
        together = min(envs, cores, TRIAL_PROCESSES)
        in_processes = functools.partial(seconds_in_processes, trial, together)
        processes, reason = choose(trial.step, trial.waits, envs, cores, in_processes)
    except WorkerError as error:
        # Those of the run may well do better, and otherwise stop it with their own message.
        processes = True
        reason = f"Stepping {envs} environments in processes, as a trial failed: {error}"
    print(reason, flush=True)
    return processes
