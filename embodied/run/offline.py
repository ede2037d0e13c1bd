"""Train from stored steps only."""

from pathlib import Path

from embodied.core.config import ConfigError
from embodied.core.replay.schema import Schema
from embodied.run.options import RunOptions
from embodied.run.run import Run
from embodied.run.session import PROGRAM, Caller, session
from embodied.run.setup import (
    MakeAgent,
    MakeLogger,
    MakeReplay,
    MakeStream,
    resume,
    set_up,
    stored_spaces,
)


def offline(
    make_agent: MakeAgent,
    make_replay: MakeReplay,
    make_stream: MakeStream,
    make_logger: MakeLogger,
    options: RunOptions,
    caller: Caller = PROGRAM,
) -> None:
    """Train on a copy of another run's replay, without environments.

    Steps are counted as if they had been collected: each pays for as many updates as in `train`, so
    that budgets and curves compare. The steps of `options.from_replay`, a replay folder or a run
    that has one, are copied into the replay of this run at its first start.

    Arguments and errors are those of `train`.

    Raises:
      ConfigError: If there are too few steps to learn from, or others than the agent reads; nothing
        is written then.
    """
    with session(caller) as here:
        run = set_up(here, options, make_agent, make_replay, make_stream, make_logger)
        if not run.checkpoint.exists():
            _copy_steps(run)
        resume(run)
        # Environments of a training run that is continued here have no meaning any more.
        run.driver_state.load(None)
        print(f"Learning from {len(run.replay):,} items, none are added.", flush=True)
        with run.to_the_end():
            learn_offline(run)


def learn_offline(run: Run) -> None:
    """The loop: every step of the budget pays for updates."""
    agent, replay, batches = run.agent, run.replay, run.batches["train"]
    for step in run.stored_steps():
        for _ in run.updates(step):
            run.learner.carry, outs, metrics = agent.train(run.learner.carry, next(batches))
            if "replay" in outs:
                replay.update(outs["replay"])
            run.learner.add(metrics)
        if run.report_due():
            run.report()
        if run.log_due():
            run.log()
        if run.save_due():
            run.save()


def _copy_steps(run: Run) -> None:
    """Take over the steps of another replay, and find out whether they can be learned from.

    Raises:
      ConfigError: If they cannot.
    """
    source, replay, needed = run.options.from_replay, run.replay, run.schedule.needed
    replay.load(directory=replay_folder(source))
    if len(replay) < needed:
        raise ConfigError(
            f"Got {len(replay):,} items from '{source}', expected at least {needed:,}, the steps "
            "of a batch; collect more of them."
        )
    assert replay.schema is not None, "there are steps"
    difference = Schema.from_spaces(stored_spaces(run.agent)).difference(replay.schema, more=True)
    if difference:
        raise ConfigError(
            f"The steps of '{source}' do not fit what the agent reads: {difference}; choose the "
            "task and the options that they were collected with."
        )


def replay_folder(path: str) -> Path:
    """The folder of chunks that a path names: that of a run, or itself."""
    folder = Path(path).expanduser()
    inside = folder / "replay"
    return inside if inside.is_dir() else folder
