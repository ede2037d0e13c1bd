"""Makes the destinations of metrics that `logger.outputs` names."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping

from dreamerv3.cli import agents
from embodied.core.config import Config
from embodied.core.writers.background import BackgroundWriter
from embodied.core.writers.jsonl import JSONLWriter
from embodied.core.writers.mlflow import MLflowWriter
from embodied.core.writers.scope import ScopeWriter
from embodied.core.writers.tensorboard import TensorBoardWriter
from embodied.core.writers.terminal import LiveProgress, TerminalWriter
from embodied.core.writers.wandb import WandbWriter
from embodied.core.writers.writer import Writer


def make_outputs(config: Config, terminal: bool = True) -> list[Writer]:
    """Make the terminal's outputs, and those that the config names.

    Args:
      config: The whole config.
      terminal: Whether there is anything on the terminal.

    Raises:
      ValueError: If there is no output of a name.
    """
    # The option is about the metrics of Dreamer; those of another agent are shown, too.
    own = "" if config.agent_class == agents.DEFAULT else "|^train/"
    outputs: list[Writer] = [TerminalWriter(config.logger.filter + own)] if terminal else []
    if terminal and LiveProgress.supported():
        outputs.append(LiveProgress())
    for name in config.logger.outputs:
        if name not in MAKERS:
            raise ValueError(f"Got log output {name!r}, expected one of {', '.join(MAKERS)}.")
        outputs += MAKERS[name](config)
    return outputs


def _jsonl(config: Config) -> list[Writer]:
    return [
        JSONLWriter(config.logdir, "metrics.jsonl"),
        JSONLWriter(config.logdir, "scores.jsonl", "^episode/score$"),
        JSONLWriter(config.logdir, "eval_scores.jsonl", "^eval/episode/score$"),
    ]


def _scope(config: Config) -> list[Writer]:
    return [ScopeWriter(config.logdir, config.logger.fps)]


def _tensorboard(config: Config) -> list[Writer]:
    return [TensorBoardWriter(config.logdir, config.logger.fps, config.flat)]


def _wandb(config: Config) -> list[Writer]:
    options, name = config.logger, pathlib.Path(config.logdir).name
    output = WandbWriter(
        config.logdir, options.project, name, options.user, options.fps, config.flat
    )
    return [BackgroundWriter(output)]


def _mlflow(config: Config) -> list[Writer]:
    options, name = config.logger, pathlib.Path(config.logdir).name
    output = MLflowWriter(config.logdir, options.project, name, options.fps, config.flat)
    return [BackgroundWriter(output)]


#: Names in `logger.outputs` and what makes them.
MAKERS: Mapping[str, Callable[[Config], list[Writer]]] = {
    "jsonl": _jsonl,
    "scope": _scope,
    "tensorboard": _tensorboard,
    "wandb": _wandb,
    "mlflow": _mlflow,
}
