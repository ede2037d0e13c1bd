"""Collect experience and learn from it, in one process."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from embodied.core.clock import Clock
from embodied.core.interfaces import Agent, Env, Stream
from embodied.core.logger import Logger
from embodied.core.nonfinite import NonFiniteError, save_batch
from embodied.core.replay.replay import Replay
from embodied.run.heartbeat import Heartbeat
from embodied.run.stop import StopRequested, StopSignals
from embodied.run.training_run import Factories, TrainingRun


def train(
    make_agent: Callable[[], Agent],
    make_replay: Callable[[], Replay],
    make_env: Callable[[int], Env],
    make_stream: Callable[[Replay, str], Stream],
    make_logger: Callable[[], Logger],
    args: Any,
) -> None:
    """Train until the budget is reached, then save, log and return (spec section 6).

    The same call with the same folder resumes. SIGINT and SIGTERM save and end the program with
    exit code 130 or 143; a second SIGINT ends it at once.

    Args:
      make_agent: Builds and compiles the agent.
      make_replay: Makes the replay.
      make_env: Makes the environment of an index; sent to worker processes.
      make_stream: Makes the stream of batches of a replay for `train` or `report`.
      make_logger: Makes the logger, whose step counts agent steps.
      args: Options: those of `run` in `configs.yaml`, and `logdir`, `batch_size`, `batch_length`,
        `consec_report`.

    Raises:
      SystemExit: After a signal, with the exit code.
      RuntimeError: If the last checkpoint cannot be written.
      NonFiniteError: If an update fails and `nonfinite` does not skip it; nothing is saved then but
        the batch, in the logdir.
    """
    factories = Factories(make_agent, make_replay, make_env, make_stream, make_logger)
    with StopSignals() as stop, Heartbeat() as heartbeat, contextlib.ExitStack() as cleanup:
        try:
            run = TrainingRun(factories, args, stop, heartbeat, cleanup)
        except StopRequested:
            print("Stopped during set-up, there is nothing new to save.", flush=True)
        else:
            with stop.protected(), _batch_kept(args.logdir):
                _loop(run, args)
    if stop.requested:
        raise SystemExit(stop.exit_code)


@contextlib.contextmanager
def _batch_kept(logdir: str) -> Iterator[None]:
    """Store the batch of an update that went wrong."""
    try:
        yield
    except NonFiniteError as error:
        path = save_batch(error, Path(logdir))
        error.add_note(
            f"The batch of this update is in {path}. The checkpoint before it is still there."
        )
        raise


def _loop(run: TrainingRun, args: Any) -> None:
    should_log = Clock(args.log_every)
    should_save = Clock(args.save_every)
    with contextlib.suppress(StopRequested):
        while run.step < args.steps and not run.progress.out_of_time:
            # Every transition goes to the replay and pays for updates, see on_transition.
            run.collect(steps=min(10, int(args.steps) - int(run.step)))
            if run.learner.report_due:
                run.report()
            if should_log():
                run.log()
            if not run.checkpoint.busy and should_save():
                run.save()
    run.finish()
