"""The Behaviour Suite for Reinforcement Learning (Osband et al., 2020)."""

from __future__ import annotations

import contextlib
import importlib
import io
from collections.abc import Mapping
from types import MappingProxyType

from embodied.core.suggest import hint
from embodied.core.wrappers.base import Wrapper
from embodied.envs.errors import EnvError, UnknownTask
from embodied.envs.from_dm import FromDM

#: Number of settings per experiment; a test compares it with the package.
SETTINGS: Mapping[str, int] = MappingProxyType(
    {
        "bandit": 20,
        "bandit_noise": 20,
        "bandit_scale": 20,
        "cartpole": 20,
        "cartpole_noise": 20,
        "cartpole_scale": 20,
        "cartpole_swingup": 20,
        "catch": 20,
        "catch_noise": 20,
        "catch_scale": 20,
        "deep_sea": 21,
        "deep_sea_stochastic": 21,
        "discounting_chain": 20,
        "memory_len": 23,
        "memory_size": 17,
        "mnist": 20,
        "mnist_noise": 20,
        "mnist_scale": 20,
        "mountain_car": 20,
        "mountain_car_noise": 20,
        "mountain_car_scale": 20,
        "umbrella_distract": 23,
        "umbrella_length": 23,
    }
)


def names() -> tuple[str, ...]:
    """All task names, `<experiment>/<setting>`, and `<experiment>` for its setting 0."""
    numbered = [f"{name}/{number}" for name, count in SETTINGS.items() for number in range(count)]
    return (*SETTINGS, *numbered)


class BSuite(Wrapper):
    """One setting of one experiment. The setting fixes the seed, as the suite's scores demand."""

    def __init__(self, task: str, results: str = "") -> None:
        """Load the experiment.

        Args:
          task: `<experiment>/<setting>`, or `<experiment>` for setting 0.
          results: Folder for the suite's own CSV logs, from which it computes its scores; existing
            ones of the same task are replaced. Nothing is written if it is empty.

        Raises:
          UnknownTask: There is no such experiment or setting.
          EnvError: The experiment needs data that cannot be downloaded (MNIST).
        """
        if task not in names():
            raise UnknownTask(f"Unknown bsuite task {task!r}.{hint(task, names())}")
        identity = task if "/" in task else f"{task}/0"
        package = importlib.import_module("bsuite")
        # The suite announces every experiment on the terminal.
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                if results:
                    env = package.load_and_record_to_csv(identity, results, overwrite=True)
                else:
                    env = package.load_from_id(identity)
            except OSError as error:
                raise EnvError(f"bsuite cannot load {identity!r}: {error}.") from error
        super().__init__(FromDM(env, obs_key="vector"))
