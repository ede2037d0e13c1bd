"""Train, and evaluate in separate environments whenever a report is due."""

import sys

from embodied.run.banner import environments
from embodied.run.episodes import Episode, EpisodeLogger
from embodied.run.evaluation import Evaluation
from embodied.run.options import RunOptions
from embodied.run.session import PROGRAM, Caller, session
from embodied.run.setup import (
    MakeAgent,
    MakeEnv,
    MakeLogger,
    MakeReplay,
    MakeStream,
    add_replay,
    add_stream,
    resume,
    set_up,
    start_environments,
)
from embodied.run.train import learn_online


def train_eval(
    make_agent: MakeAgent,
    make_replays: tuple[MakeReplay, MakeReplay],
    make_envs: tuple[MakeEnv, MakeEnv],
    make_stream: MakeStream,
    make_logger: MakeLogger,
    options: RunOptions,
    caller: Caller = PROGRAM,
) -> None:
    """Train as `train` does; with every report, and at the end, run an evaluation.

    An evaluation has `options.eval_eps` episodes, a fixed number in each of `options.eval_envs`
    environments. The mean of their scores is logged as `eval/episode/score`, without episodes that
    `eval.max_length` cuts off, their statistics as `eval/epstats`. Their steps go to a replay of
    their own, on which the agent reports its losses as `eval`. None of that influences training.
    With `options.keep_best`, the checkpoint with the highest mean score is kept.

    Args:
      make_agent: Builds and compiles the agent.
      make_replays: Make the replays for training and for evaluation.
      make_envs: Make an environment for training and for evaluation.
      make_stream: Makes the stream of batches of a replay for `train`, `report` or `eval`.
      make_logger: Makes the logger, whose step counts agent steps.
      options: Options of the run.
      caller: What has started the script.

    Raises:
      SystemExit: After a signal, with the exit code.
      RuntimeError: If the last checkpoint cannot be written.
    """
    with session(caller) as here:
        run = set_up(here, options, make_agent, make_replays[0], make_stream, make_logger)
        eval_replay = make_replays[1]()
        add_replay(run, "eval_replay", eval_replay)
        add_stream(run, "eval", make_stream(eval_replay, "eval"))
        here.cleanup.callback(eval_replay.close)
        resume(run)
        start_environments(run, make_envs[0])
        with here.phase(f"Starting {environments(options.eval_envs)} for evaluation"):
            evaluation = Evaluation(make_envs[1], options, here)
        episodes = EpisodeLogger(None, options.picture_every)
        evaluated = -1

        def evaluate() -> None:
            nonlocal evaluated
            run.settle()
            finished: list[Episode] = []
            progress = lambda: f"{len(finished)} of {options.eval_eps} episodes are over"  # noqa: E731
            with here.timer.section("evaluate"), here.heartbeat.activity("evaluating", progress):
                evaluation.run(run.agent, episodes, finished.append, eval_replay.add)
            evaluated = int(run.step)
            run.logger.add(episodes.stats(), prefix="eval/epstats")
            whole = [episode for episode in finished if not evaluation.is_partial(episode)]
            cut = f", {len(finished) - len(whole)} cut off" if len(whole) < len(finished) else ""
            if whole:
                score = sum(episode.score for episode in whole) / len(whole)
                length = sum(episode.length for episode in whole) / len(whole)
                run.logger.add({"score": score, "length": length}, prefix="eval/episode")
                print(f"Evaluation: mean score {score:.4g} of {len(whole)} episodes{cut}.")
                if options.keep_best and score > run.checkpoint.best_score():
                    run.save(score)
            elif finished:
                print(f"Evaluation: no score{cut}, see --eval.max_length.")
            sys.stdout.flush()

        def report() -> None:
            evaluate()
            run.report()
            if len(eval_replay):
                run.logger.add(run.learner.report(run.batches["eval"], "eval"))

        with run.to_the_end():
            learn_online(run, report)
            if not here.stop.requested and evaluated != int(run.step):
                evaluate()
