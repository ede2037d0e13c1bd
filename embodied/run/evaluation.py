"""Runs whole episodes of a policy, the same number in each environment."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from embodied.core.driver import Driver, Policy
from embodied.core.interfaces import Agent, Batch, Carry, Env
from embodied.core.wrappers import TimeLimit
from embodied.run.episodes import Episode, EpisodeLogger
from embodied.run.stepping import use_processes
from embodied.run.stop import StopSignals


class Evaluation:
    """Environments for evaluation, and the loop that runs a fixed number of episodes in each.

    Which episodes count is fixed before they are run. If the first ones to finish were taken
    instead, short episodes would be more frequent than they are.
    """

    def __init__(self, make_env: Callable[[int], Env], args: Any, stop: StopSignals) -> None:
        """Start the environments.

        Args:
          make_env: Makes the environment of an index.
          args: Options of the run.
          stop: Requests to stop, which may interrupt a wait for the environments.

        Raises:
          WorkerError: If an environment cannot be made.
        """
        self._stop = stop
        self._limit = args.eval.max_length
        self._mode = args.eval.mode
        workers = min(args.eval_envs, max(args.eval_eps, 1))
        share, rest = divmod(args.eval_eps, workers)
        self._quotas = [share + (worker < rest) for worker in range(workers)]
        make = functools.partial(_limited, make_env, self._limit)
        constructors = [functools.partial(make, index) for index in range(workers)]
        processes = use_processes(
            args.parallel, make_env, workers, args.env_timeout, args.get("env_restarts", 0)
        )
        self._driver = Driver(constructors, processes, args.env_timeout)
        self._callbacks: list[Callable[[Mapping[str, np.ndarray], int], None]] = []
        self._driver.on_step(self._on_transition)

    def on_step(self, callback: Callable[[Mapping[str, np.ndarray], int], None]) -> None:
        """Register a function to call with every transition of the episodes that count."""
        self._callbacks.append(callback)

    def run(
        self, agent: Agent, episodes: EpisodeLogger, on_episode: Callable[[Episode], None]
    ) -> list[Episode]:
        """Run the episodes.

        Args:
          agent: Acts.
          episodes: Collects the transitions.
          on_episode: Called with each episode when it is over.

        Returns:
          The episodes in the order in which they ended.

        Raises:
          StopRequested: If the run has to stop.
          WorkerError: If an environment fails.
        """
        self._left = list(self._quotas)
        self._tracker, self._on_episode = episodes, on_episode
        self._finished: list[Episode] = []
        episodes.forget()
        self._driver.reset(agent.init_policy)
        policy = self._policy(agent)
        while any(self._left):
            with self._stop.interruptible():
                self._driver(policy, steps=1)
        return self._finished

    def close(self) -> None:
        """End the environments."""
        self._driver.close()

    def _policy(self, agent: Agent) -> Policy:
        mode = "deterministic" if self._mode == "deterministic" else "eval"

        def policy(carry: Carry, obs: Batch) -> tuple[Carry, Batch, Batch]:
            with self._stop.protected():
                result = agent.policy(carry, obs, mode)
            self._stop.check()
            return result

        return policy

    def _on_transition(self, transition: Mapping[str, np.ndarray], worker: int) -> None:
        if not self._left[worker]:
            return
        with self._stop.protected():
            for callback in self._callbacks:
                callback(transition, worker)
            episode = self._tracker(transition, worker)
            if episode is None:
                return
            self._left[worker] -= 1
            self._finished.append(episode)
            if self._limit and episode.length >= self._limit:
                print(
                    f"Cut off an episode of environment {worker} after {episode.length:,} steps, "
                    "see --eval.max_length.",
                    flush=True,
                )
            self._on_episode(episode)


def _limited(make_env: Callable[[int], Env], limit: int, index: int) -> Env:
    return TimeLimit(make_env(index), limit) if limit else make_env(index)
