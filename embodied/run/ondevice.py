"""Collect experience and learn from it, in one compiled program for one or several seeds."""

from embodied.run.banner import budget_and_learning
from embodied.run.device_run import DeviceRun, MakeLoggers, MakeProgram
from embodied.run.options import RunOptions
from embodied.run.session import PROGRAM, Caller, session


def ondevice(
    make_program: MakeProgram,
    make_loggers: MakeLoggers,
    options: RunOptions,
    length: int,
    evaluates: bool = False,
    caller: Caller = PROGRAM,
) -> None:
    """Train until the budget is reached, then save, log and return.

    What is done, and with which functions, is the same as in `train`; see `docs/device.md` for the
    differences. The same call with the same folder resumes, exactly where it was. SIGINT and
    SIGTERM end the chunk that is running, save, and end the program with exit code 130 or 143.

    Args:
      make_program: Builds the program.
      make_loggers: Makes the logger of each seed, whose step counts agent steps.
      options: Options of the run.
      length: Most iterations between two returns to the host.
      evaluates: Whether to run an evaluation with every report, and at the end.
      caller: What has started the script; it has no callbacks here.

    Raises:
      SystemExit: After a signal, with the exit code.
      ConfigError: If the program does not fit the devices, or a checkpoint not the program.
      RuntimeError: If the last checkpoint cannot be written.
      NonFiniteError: If an update fails and `nonfinite` does not skip it; nothing is saved then.
    """
    with session(caller) as here:
        with here.phase("Building the agent"):
            program = make_program()
        loggers = make_loggers()
        for logger in loggers:
            here.cleanup.callback(logger.close)
            logger.add("params/summary", program.summary())
        run = DeviceRun(here, options, program, loggers, length, evaluates)
        resume(run)
        print(budget_and_learning(options, loggers[0].multiplier), flush=True)
        print(program.describe_replay(), flush=True)
        with here.phase("Compiling", "takes minutes at the first start"):
            run.compile()
        with run.to_the_end():
            learn_on_device(run)


def learn_on_device(run: DeviceRun) -> None:
    """The loop: what happens between two chunks of iterations on the device."""
    while not run.over():
        run.advance()
        if run.report_due():
            run.report()
        if run.log_due():
            run.log()
        if run.save_due():
            run.save()


def resume(run: DeviceRun) -> None:
    """Continue from the last checkpoint, else start from another run's agent, else from new.

    A new run writes its first checkpoint here, so that a folder that cannot be written to is found
    before anything is learned.
    """
    with run.session.phase("Looking for a checkpoint"):
        resumed = run.resume()
    if resumed:
        print(f"Continuing at {run.describe_position()}.", flush=True)
        return
    source, options = run.options.from_checkpoint, run.options
    if source:
        with run.session.phase(f"Loading the agent from {source}"):
            _, states = run.seeds[0].checkpoint.read(source, ["agent"])
            run.program.load_params(states["agent"], options.from_checkpoint_regex)
    run.save()
    print("Starting a new run.", flush=True)
