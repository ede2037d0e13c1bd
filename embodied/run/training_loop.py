"""The loop that all training scripts share."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from embodied.core.clock import Clock
from embodied.core.nonfinite import NonFiniteError, save_batch
from embodied.run.heartbeat import Heartbeat
from embodied.run.stop import StopRequested, StopSignals
from embodied.run.training_run import TrainingRun

MakeRun = Callable[[StopSignals, Heartbeat, contextlib.ExitStack], TrainingRun]


def run_to_end(make_run: MakeRun, args: Any) -> None:
    """Set a run up, go on until its budget is reached, then save, log and return (section 6).

    SIGINT and SIGTERM save and end the program with exit code 130 or 143; a second SIGINT ends it
    at once.

    Args:
      make_run: Sets everything up, or continues from the checkpoint.
      args: Options of the run.

    Raises:
      SystemExit: After a signal, with the exit code.
      RuntimeError: If the last checkpoint cannot be written.
      NonFiniteError: If an update fails and `nonfinite` does not skip it; nothing is saved then but
        the batch, in the logdir.
    """
    with StopSignals() as stop, Heartbeat() as heartbeat, contextlib.ExitStack() as cleanup:
        try:
            run = make_run(stop, heartbeat, cleanup)
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
    shared = run.replicas.shared
    out_of_time = shared("out_of_time", lambda: run.progress.out_of_time)
    stopped = shared("stopped", lambda: run.stop.requested)
    should_log = shared("log", Clock(args.log_every))
    # Waiting for the last checkpoint is better than none, where all have to agree.
    save_clock = Clock(args.save_every)
    should_save = shared("save", lambda: not run.checkpoint.busy and save_clock())
    with contextlib.suppress(StopRequested):
        while run.step < args.steps and not out_of_time() and not stopped():
            # Every transition goes to the replay and pays for updates, see on_transition.
            run.collect(steps=min(10, int(args.steps) - int(run.step)))
            if run.learner.report_due:
                run.report()
            if should_log():
                run.log()
            if should_save():
                run.save()
    run.finish()
