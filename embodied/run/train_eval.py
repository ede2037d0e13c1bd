"""Train, and evaluate in separate environments whenever a report is due."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from embodied.core.interfaces import Agent, Env, Stream
from embodied.core.logger import Logger
from embodied.core.replay.replay import Replay
from embodied.run.episodes import Episode, EpisodeLogger
from embodied.run.evaluation import Evaluation
from embodied.run.saved_parts import ReplayState
from embodied.run.training_loop import run_to_end
from embodied.run.training_run import Factories, TrainingRun


def train_eval(
    make_agent: Callable[[], Agent],
    make_replays: tuple[Callable[[], Replay], Callable[[], Replay]],
    make_envs: tuple[Callable[[int], Env], Callable[[int], Env]],
    make_stream: Callable[[Replay, str], Stream],
    make_logger: Callable[[], Logger],
    args: Any,
) -> None:
    """Train as `train` does; with every report, and at the end, run an evaluation.

    An evaluation has `args.eval_eps` episodes, a fixed number in each of `args.eval_envs`
    environments. Their scores are logged as `eval/episode/score`, their statistics as
    `eval/epstats`, and their steps go to a replay of their own, on which the agent reports its
    losses as `eval`. None of that has an influence on training.

    Args:
      make_agent: Builds and compiles the agent.
      make_replays: Make the replays for training and for evaluation.
      make_envs: Make an environment for training and for evaluation.
      make_stream: Makes the stream of batches of a replay for `train`, `report` or `eval`.
      make_logger: Makes the logger, whose step counts agent steps.
      args: Options: those of `train`, and `eval`.

    Raises:
      SystemExit: After a signal, with the exit code.
      RuntimeError: If the last checkpoint cannot be written.
    """
    (make_replay, make_eval_replay), (make_env, make_eval_env) = make_replays, make_envs
    factories = EvaluationFactories(
        make_agent, make_replay, make_env, make_stream, make_logger, make_eval_replay, make_eval_env
    )
    run_to_end(functools.partial(EvaluatedRun, factories, args), args)


@dataclasses.dataclass(frozen=True)
class EvaluationFactories(Factories):
    """Functions that make the parts of a run with evaluation; see `train_eval`."""

    make_eval_replay: Callable[[], Replay]
    make_eval_env: Callable[[int], Env]


class EvaluatedRun(TrainingRun):
    """A training run whose reports begin with an evaluation."""

    _evaluated = -1

    def _add_parts(self, factories: Any, cleanup: contextlib.ExitStack) -> None:
        self._eval_replay: Replay = factories.make_eval_replay()
        self._eval_stream = self._agent.stream(factories.make_stream(self._eval_replay, "eval"))
        cleanup.callback(self._eval_stream.close)
        cleanup.callback(self._eval_replay.close)
        self.checkpoint.register("eval_replay", ReplayState(self._eval_replay))
        self.checkpoint.register("eval_stream", self._eval_stream)

    def _start_environments(self, factories: Any, cleanup: contextlib.ExitStack) -> None:
        super()._start_environments(factories, cleanup)
        args = self._args
        with self._heartbeat.phase(f"Starting {args.eval_envs} environments for evaluation"):
            self._evaluation = Evaluation(factories.make_eval_env, args, self.stop)
            cleanup.callback(self._evaluation.close)
        self._evaluation.on_step(self._eval_replay.add)
        self._eval_episodes = EpisodeLogger(self._logger, args.picture_every, prefix="eval/")

    def report(self) -> None:
        """Evaluate, and log what the agent believes about both kinds of data.

        Raises:
          StopRequested: If the run has to stop; episodes that were complete are logged.
        """
        self._evaluate()
        super().report()
        if len(self._eval_replay):
            self._logger.add(self.learner.report(self._eval_stream, "eval"))

    def finish(self) -> None:
        """Evaluate what was reached, unless the run was stopped; then save and log."""
        if not self.stop.requested and self._evaluated != int(self.step):
            self._evaluate()
        super().finish()

    def _evaluate(self) -> None:
        self.settle()
        finished: list[Episode] = []
        progress = lambda: f"{len(finished)} of {self._args.eval_eps} episodes are over"  # noqa: E731
        with self._heartbeat.activity("evaluating", progress), self._timer.section("evaluate"):
            self._evaluation.run(self._agent, self._eval_episodes, finished.append)
        self._evaluated = int(self.step)
        self._logger.add(self._eval_episodes.stats(), prefix="eval/epstats")
        scores = [episode.score for episode in finished]
        if scores:
            mean = sum(scores) / len(scores)
            print(f"Evaluation: mean score {mean:.4g} of {len(scores)} episodes.", flush=True)
