"""What a program that acts, stores and learns on devices offers to the script that runs it."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from embodied.core.schedule import Plan


@dataclasses.dataclass(frozen=True)
class EndedEpisode:
    """An episode that has ended in a chunk.

    Attributes:
      iteration: In which iteration of the chunk.
      world: Which of the environments.
      score: Sum of the rewards.
      steps: Observations, the first one included.
      changes: Observations whose reward differs from the one before by 0.01 or more.
      logs: Of each logged scalar, how many values there were, their sum and their maximum.
    """

    iteration: int
    world: int
    score: float
    steps: int
    changes: int
    logs: dict[str, tuple[int, float, float]]


@dataclasses.dataclass(frozen=True)
class ChunkResult:
    """What has happened to one seed in a chunk.

    Attributes:
      episodes: Those that have ended, in the order of their steps.
      sums: Sums of the metrics of training over the updates that count.
      updates: How many of these there were.
      skipped: How many were left out, as they were not finite.
    """

    episodes: list[EndedEpisode]
    sums: dict[str, float]
    updates: int
    skipped: int


class DeviceProgram(ABC):
    """Trains one or several seeds in iterations, in each of which all environments step.

    The seeds are independent runs that have nothing in common but the number of their steps.

    Attributes:
      seeds: The seeds.
      worlds: Environments per seed N.
      window: Steps per item of the replay.
      capacity: Largest number of items.
    """

    seeds: list[int]
    worlds: int
    window: int
    capacity: int

    @abstractmethod
    def compile(self, plan: Plan) -> None:
        """Compile for plans of the shapes of this one."""

    @abstractmethod
    def start(self, plan: Plan, count: int) -> Any:
        """Let the devices run `count` iterations; return a handle for `fetch`."""

    @abstractmethod
    def fetch(self, handle: Any) -> list[ChunkResult]:
        """Wait for iterations and return what has happened, for each seed.

        Raises:
          NonFiniteError: If an update was not finite and the run has to stop.
        """

    @abstractmethod
    def report(self) -> list[dict[str, np.ndarray]]:
        """Metrics of the model on stored steps, for each seed, without influence on anything."""

    @abstractmethod
    def evaluate(self) -> list[dict[str, np.ndarray]]:
        """Run episodes for each seed, without influence on anything.

        Returns:
          For each seed `score` [E] and `length` [E] of E episodes, and `partial`, bool [E], those
          that were cut off.
        """

    @abstractmethod
    def save(self) -> list[dict[str, Any]]:
        """State of each seed: `agent`, as any agent saves it, and `ondevice`, all the rest."""

    @abstractmethod
    def load(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Continue with what `save` has returned.

        Raises:
          ConfigError: If it was saved with other options.
        """

    @abstractmethod
    def load_params(self, agent: Mapping[str, Any], regex: str) -> None:
        """Start all seeds from the parameters of a saved agent whose path matches a pattern.

        Raises:
          ConfigError: If they do not fit.
        """

    @abstractmethod
    def summary(self) -> str:
        """Describe the model in a few lines, for the log."""

    @abstractmethod
    def describe_replay(self) -> str:
        """Say in one line what the replay takes on the devices."""
