"""Makes the destinations of metrics that `logger.outputs` names."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping

from embodied.core.config import Config
from embodied.core.counter import Counter
from embodied.core.outputs.background import BackgroundOutput
from embodied.core.outputs.base import Output
from embodied.core.outputs.jsonl import JSONLOutput
from embodied.core.outputs.live_progress import LiveProgress
from embodied.core.outputs.mlflow import MLflowOutput
from embodied.core.outputs.scope import ScopeOutput
from embodied.core.outputs.tensorboard import TensorBoardOutput
from embodied.core.outputs.terminal import TerminalOutput
from embodied.core.outputs.wandb import WandbOutput


def make_outputs(config: Config, step: Counter) -> list[Output]:
    """Make the terminal's outputs, and those that the config names.

    Args:
      config: The whole config.
      step: Counter of agent steps.

    Raises:
      ValueError: If there is no output of a name.
    """
    outputs: list[Output] = [TerminalOutput(config.logger.filter)]
    if LiveProgress.supported():
        outputs.append(LiveProgress(step, int(config.run.steps)))
    for name in config.logger.outputs:
        if name not in MAKERS:
            raise ValueError(f"Got log output {name!r}, expected one of {', '.join(MAKERS)}.")
        outputs += MAKERS[name](config)
    return outputs


def _jsonl(config: Config) -> list[Output]:
    return [
        JSONLOutput(config.logdir, "metrics.jsonl"),
        JSONLOutput(config.logdir, "scores.jsonl", "^episode/score$"),
        JSONLOutput(config.logdir, "eval_scores.jsonl", "^eval/episode/score$"),
    ]


def _scope(config: Config) -> list[Output]:
    return [ScopeOutput(config.logdir, config.logger.fps)]


def _tensorboard(config: Config) -> list[Output]:
    return [TensorBoardOutput(config.logdir, config.logger.fps, config.flat)]


def _wandb(config: Config) -> list[Output]:
    options, name = config.logger, pathlib.Path(config.logdir).name
    output = WandbOutput(
        config.logdir, options.project, name, options.user, options.fps, config.flat
    )
    return [BackgroundOutput(output)]


def _mlflow(config: Config) -> list[Output]:
    options, name = config.logger, pathlib.Path(config.logdir).name
    output = MLflowOutput(config.logdir, options.project, name, options.fps, config.flat)
    return [BackgroundOutput(output)]


#: Names in `logger.outputs` and what makes them.
MAKERS: Mapping[str, Callable[[Config], list[Output]]] = {
    "jsonl": _jsonl,
    "scope": _scope,
    "tensorboard": _tensorboard,
    "wandb": _wandb,
    "mlflow": _mlflow,
}
