"""Fill a replay folder without learning."""

from collections.abc import Callable
from typing import Any

from embodied.core.interfaces import Agent, Env, Stream
from embodied.core.logger import Logger
from embodied.core.replay.replay import Replay
from embodied.run.train import train


def collect(
    make_agent: Callable[[], Agent],
    make_replay: Callable[[], Replay],
    make_env: Callable[[int], Env],
    make_stream: Callable[[Replay, str], Stream],
    make_logger: Callable[[], Logger],
    args: Any,
) -> None:
    """Act for `args.steps` agent steps and store them, as a training run without updates.

    Arguments and errors are those of `train`, with an agent that only acts: at random, or with the
    parameters of `args.from_checkpoint`. The steps are in the folder of the replay when it returns,
    with what the agent wants stored besides observations and actions.
    """
    changes = {"train_ratio": 0.0, "report_every": 0.0}
    train(make_agent, make_replay, make_env, make_stream, make_logger, args.update(changes))
