"""Runs whole episodes of a policy, the same number in each environment."""

import functools
from collections.abc import Callable, Mapping

import numpy as np

from embodied.core.interfaces import Agent, Env
from embodied.core.wrappers import TimeLimit
from embodied.run.episodes import Episode, EpisodeLogger
from embodied.run.options import RunOptions
from embodied.run.session import Session
from embodied.run.stepping import start_driver

OnTransition = Callable[[Mapping[str, np.ndarray], int], object]


class Evaluation:
    """Environments for evaluation, and the loop that runs a fixed number of episodes in each.

    Which episodes count is fixed before they are run. If the first ones to finish were taken
    instead, short episodes would be more frequent than they are.
    """

    def __init__(
        self, make_env: Callable[[int], Env], options: RunOptions, session: Session
    ) -> None:
        """Start the environments, which the session closes.

        Args:
          make_env: Makes the environment of an index.
          options: Options of the run.
          session: A request to stop may interrupt a wait for the environments.

        Raises:
          WorkerError: If an environment cannot be made.
        """
        self._stop = session.stop
        self._options = options.eval
        workers = min(options.eval_envs, max(options.eval_eps, 1))
        share, rest = divmod(options.eval_eps, workers)
        self._quotas = [share + (worker < rest) for worker in range(workers)]
        limited = _Limited(make_env, options.eval.max_length)
        self._driver = start_driver(limited, options, workers, session)

    def run(
        self,
        agent: Agent,
        episodes: EpisodeLogger,
        on_episode: Callable[[Episode], object],
        on_transition: OnTransition = lambda transition, worker: None,
    ) -> list[Episode]:
        """Run the episodes.

        Args:
          agent: Acts.
          episodes: Collects the transitions.
          on_episode: Called with each episode when it is over.
          on_transition: Called with every transition of the episodes that count, and its worker.

        Returns:
          The episodes in the order in which they ended.

        Raises:
          StopRequested: If the run has to stop.
          WorkerError: If an environment fails.
        """
        left = list(self._quotas)
        finished: list[Episode] = []
        if not any(left):
            return finished
        episodes.forget()
        self._driver.reset(agent.init_policy)
        mode = "deterministic" if self._options.mode == "deterministic" else "eval"
        policy = functools.partial(agent.policy, mode=mode)
        for transition, worker in self._driver.transitions(policy):
            self._stop.check()
            if left[worker]:
                on_transition(transition, worker)
                episode = episodes.add(transition, worker)
                if episode is not None:
                    left[worker] -= 1
                    finished.append(episode)
                    self._tell_if_partial(episode)
                    on_episode(episode)
            if self._driver.between_steps and not any(left):
                break
        return finished

    def is_partial(self, episode: Episode) -> bool:
        """Whether an episode was cut off, so that its score is not that of a whole one."""
        limit = self._options.max_length
        return bool(limit) and episode.length >= limit and not episode.terminal

    def _tell_if_partial(self, episode: Episode) -> None:
        if self.is_partial(episode):
            print(
                f"Cut off an episode of environment {episode.worker} after {episode.length:,} "
                "steps, see --eval.max_length.",
                flush=True,
            )


class _Limited:
    """Makes environments whose episodes are cut off."""

    def __init__(self, make_env: Callable[[int], Env], limit: int) -> None:
        self._make_env, self._limit = make_env, limit
        self.needs_processes = getattr(make_env, "needs_processes", False)

    def __call__(self, index: int) -> Env:
        env = self._make_env(index)
        return TimeLimit(env, self._limit) if self._limit else env
