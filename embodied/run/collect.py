"""Fill a replay folder without learning."""

import dataclasses

from embodied.run.options import RunOptions
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


def collect(
    make_agent: MakeAgent,
    make_replay: MakeReplay,
    make_env: MakeEnv,
    make_stream: MakeStream,
    make_logger: MakeLogger,
    options: RunOptions,
    caller: Caller = PROGRAM,
) -> None:
    """Act for `options.steps` agent steps and store them.

    Arguments and errors are those of `train`, with an agent that only acts: at random, or with the
    parameters of `options.from_checkpoint`. The steps are in the folder of the replay when it
    returns, with what the agent wants stored besides observations and actions.
    """
    options = dataclasses.replace(options, train_ratio=0.0, report_every=0.0)
    with session(caller) as here:
        run = set_up(here, options, make_agent, make_replay, make_stream, make_logger)
        resume(run)
        start_environments(run, make_env)
        with run.to_the_end():
            for transition, worker in run.transitions():
                run.replay.add(transition, worker)
                run.episodes.add(transition, worker)
                if run.log_due():
                    run.log()
                if run.save_due():
                    run.save()
