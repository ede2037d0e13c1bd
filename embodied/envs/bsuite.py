"""The Behaviour Suite for Reinforcement Learning (Osband et al., 2020)."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

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
    """One setting of one experiment.

    The setting fixes what has to be learned. The seed decides everything else, except in
    `deep_sea_stochastic`, which the suite does not let us seed.
    """

    def __init__(self, task: str, results: str = "", seed: int = 0) -> None:
        """Load the experiment.

        Args:
          task: `<experiment>/<setting>`, or `<experiment>` for setting 0.
          results: Folder for the suite's own CSV logs, from which it computes its scores; existing
            ones of the same task are replaced. Nothing is written if it is empty.
          seed: Seed of the experiment.

        Raises:
          UnknownTask: There is no such experiment or setting.
          EnvError: The experiment needs data that cannot be downloaded (MNIST).
        """
        if task not in names():
            raise UnknownTask(f"Unknown bsuite task {task!r}.{hint(task, names())}")
        identity = task if "/" in task else f"{task}/0"
        # The suite announces every experiment on the terminal.
        with contextlib.redirect_stdout(io.StringIO()):
            env = _load(identity, seed)
            if results:
                logging = importlib.import_module("bsuite.logging.csv_logging")
                env = logging.wrap_environment(env, identity, results, overwrite=True)
        super().__init__(FromDM(env, obs_key="vector"))


def _load(identity: str, seed: int) -> Any:
    """Make the dm_env environment of an experiment and setting."""
    package = importlib.import_module("bsuite.bsuite")
    settings = dict(importlib.import_module("bsuite.sweep").SETTINGS[identity])
    experiment = identity.partition("/")[0]
    factory = package.EXPERIMENT_NAME_TO_ENVIRONMENT[experiment]
    if "seed" in inspect.signature(factory).parameters:
        settings["seed"] = seed
    try:
        return package.load(experiment, settings)
    except OSError as error:
        raise EnvError(f"bsuite cannot load {identity!r}: {error}.") from error
