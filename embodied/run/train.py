"""Collect experience and learn from it, in one process."""

import functools
from collections.abc import Callable
from typing import Any

from embodied.core.interfaces import Agent, Env, Stream
from embodied.core.logger import Logger
from embodied.core.replay.replay import Replay
from embodied.run.training_loop import run_to_end
from embodied.run.training_run import Factories, TrainingRun


def train(
    make_agent: Callable[[], Agent],
    make_replay: Callable[[], Replay],
    make_env: Callable[[int], Env],
    make_stream: Callable[[Replay, str], Stream],
    make_logger: Callable[[], Logger],
    args: Any,
) -> None:
    """Train until the budget is reached; see `run_to_end` for how it ends.

    The same call with the same folder resumes.

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
    run_to_end(functools.partial(TrainingRun, factories, args), args)
