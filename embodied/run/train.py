"""Collect experience and learn from it, in one process."""

from collections.abc import Callable

from embodied.run.options import RunOptions
from embodied.run.run import Run
from embodied.run.session import PROGRAM, Caller, session
from embodied.run.setup import (
    MakeAgent,
    MakeEnv,
    MakeLogger,
    MakeReplay,
    MakeStream,
    resume,
    set_up,
    start_environments,
)


def train(
    make_agent: MakeAgent,
    make_replay: MakeReplay,
    make_env: MakeEnv,
    make_stream: MakeStream,
    make_logger: MakeLogger,
    options: RunOptions,
    caller: Caller = PROGRAM,
) -> None:
    """Train until the budget is reached, then save, log and return.

    The same call with the same folder resumes. SIGINT and SIGTERM save and end the program with
    exit code 130 or 143; a second SIGINT ends it at once.

    Args:
      make_agent: Builds and compiles the agent.
      make_replay: Makes the replay.
      make_env: Makes the environment of an index; sent to worker processes.
      make_stream: Makes the stream of batches of a replay for `train` or `report`.
      make_logger: Makes the logger, whose step counts agent steps.
      options: Options of the run.
      caller: What has started the script.

    Raises:
      SystemExit: After a signal, with the exit code.
      RuntimeError: If the last checkpoint cannot be written.
      NonFiniteError: If an update fails and `nonfinite` does not skip it; nothing is saved then but
        the batch, in the logdir.
    """
    with session(caller) as here:
        run = set_up(here, options, make_agent, make_replay, make_stream, make_logger)
        resume(run)
        start_environments(run, make_env)
        with run.to_the_end():
            learn_online(run, run.report)


def learn_online(run: Run, report: Callable[[], None]) -> None:
    """The loop: every transition is stored and pays for updates.

    Args:
      run: The parts of the run.
      report: Called when a report is due.
    """
    agent, replay, batches = run.agent, run.replay, run.batches["train"]

    def make_updates(step: int) -> None:
        for _ in run.updates(step):
            run.learner.carry, outs, metrics = agent.train(run.learner.carry, next(batches))
            if "replay" in outs:
                replay.update(outs["replay"])
            run.learner.add(metrics)

    learn = run.in_background(make_updates)
    if run.schedule.owed:  # The run was stopped between two updates.
        learn(int(run.step))
    for transition, worker in run.transitions():
        replay.add(transition, worker)
        run.episodes.add(transition, worker)
        learn(int(run.step))
        if run.report_due():
            report()
        if run.log_due():
            run.log()
        if run.save_due():
            run.save()
