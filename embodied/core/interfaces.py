"""The three interfaces of the toolkit: environments, agents and streams."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from embodied.core.space import Space

Obs = dict[str, Any]
Action = dict[str, Any]
Batch = dict[str, np.ndarray]
Carry = Any
State = Any


class Env(ABC):
    """One environment instance, stepped through `step` alone, resets included.

    Observations always have `reward` (float32), `is_first`, `is_last` and `is_terminal` (bool). A
    time limit sets `is_last` without `is_terminal`. Keys starting with `log/` are logged and never
    reach the agent; they have to be declared but may be left out of an observation.
    """

    @property
    @abstractmethod
    def obs_space(self) -> dict[str, Space]:
        """Space of every key that an observation can have."""

    @property
    @abstractmethod
    def act_space(self) -> dict[str, Space]:
        """Space of every key of an action, the bool `reset` among them."""

    @abstractmethod
    def step(self, action: Mapping[str, Any]) -> Obs:
        """Apply an action, or start an episode.

        Args:
            action: A value for every key of `act_space`. With `reset` set, the others are ignored.

        Returns:
            The next observation; after a reset the first of a new episode, with `is_first` and
            reward 0.
        """

    def close(self) -> None:  # noqa: B027 (a default that does nothing is the point)
        """Release what the environment holds; called once, nothing is stepped afterwards."""

    def save(self) -> State | None:
        """Return all that later steps depend on, random generators included.

        None, the default, says that this environment cannot do so. A resumed run then starts new
        episodes instead of continuing in the middle of the old ones.
        """
        return None

    def load(self, state: State) -> None:
        """Continue where `save` was called on an environment of the same construction."""
        raise NotImplementedError(f"{type(self).__name__} has save, expected load as well.")


class Agent(ABC):
    """A learner and actor. Carries are opaque to the caller and handed back at the next call.

    Shapes: N envs, B batch rows, T time steps (context included).
    """

    @property
    @abstractmethod
    def ext_space(self) -> dict[str, Space]:
        """Spaces of what the agent wants stored and replayed besides observations and actions."""

    @abstractmethod
    def init_policy(self, batch_size: int) -> Carry:
        """Carry before the first step of N envs."""

    @abstractmethod
    def init_train(self, batch_size: int) -> Carry:
        """Carry before the first training batch of B rows."""

    @abstractmethod
    def init_report(self, batch_size: int) -> Carry:
        """Carry before the first report batch of B rows."""

    @abstractmethod
    def policy(self, carry: Carry, obs: Batch, mode: str = "train") -> tuple[Carry, Batch, Batch]:
        """Choose actions.

        Args:
            carry: What the previous call or `init_policy` returned.
            obs: Arrays [N, ...] per observation key, without `log/` keys.
            mode: One of `train`, `eval` and `report`.

        Returns:
            The next carry, actions [N, ...] for every key of the action space but `reset`, and
            outputs [N, ...] that are stored with the transition.
        """

    @abstractmethod
    def train(self, carry: Carry, data: Batch) -> tuple[Carry, dict[str, Any], dict[str, Any]]:
        """Learn from a batch.

        Args:
            carry: What the previous call or `init_train` returned.
            data: Arrays [B, T, ...] from `stream`.

        Returns:
            The next carry, outputs (`replay`, if present, is handed to `replay.update`), metrics.
        """

    @abstractmethod
    def report(self, carry: Carry, data: Batch) -> tuple[Carry, dict[str, Any]]:
        """Show what the agent believes about a batch.

        Returns:
            The next carry and metrics: scalars, histograms, images and videos.
        """

    @abstractmethod
    def stream(self, source: "Stream") -> "Stream":
        """Turn a stream of batches into what `train` and `report` take, e.g. placed on devices."""

    @abstractmethod
    def save(self) -> State:
        """Return all state as nested dicts of arrays."""

    @abstractmethod
    def load(self, data: State, regex: str | None = None) -> None:
        """Restore state.

        Args:
            data: What `save` returned.
            regex: Pattern of the parameter paths to load, all if None.
        """

    def summary(self) -> str:
        """Describe the agent in a few lines, for the log."""
        return type(self).__name__


class Stream(Iterator[Any], ABC):
    """An iterator whose position can be saved and restored."""

    def __iter__(self) -> "Stream":
        return self

    @abstractmethod
    def __next__(self) -> Any:
        """Return the next element, or raise StopIteration when a finite source ends."""

    @abstractmethod
    def save(self) -> State:
        """Return the position."""

    @abstractmethod
    def load(self, state: State) -> None:
        """Continue at a saved position."""

    def close(self) -> None:
        """Stop threads and release sources; always returns, and may be called twice."""
