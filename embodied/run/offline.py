"""Train from stored steps only."""

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from embodied.core.interfaces import Agent, Env, Stream
from embodied.core.logger import Logger
from embodied.core.replay.replay import Replay
from embodied.run.training_loop import run_to_end
from embodied.run.training_run import Factories, TrainingRun


def offline(
    make_agent: Callable[[], Agent],
    make_replay: Callable[[], Replay],
    make_env: Callable[[int], Env],
    make_stream: Callable[[Replay, str], Stream],
    make_logger: Callable[[], Logger],
    args: Any,
) -> None:
    """Train on a copy of another run's replay, without environments.

    Steps are counted as if they had been collected: each pays for as many updates as in `train`, so
    that budgets and curves compare. The steps of `args.from_replay`, a replay folder or a run that
    has one, are copied into the replay of this run at its first start.

    Arguments and errors are those of `train`; no environment is stepped.

    Raises:
      ValueError: If there are too few steps to learn from.
    """
    factories = Factories(make_agent, make_replay, make_env, make_stream, make_logger)
    run_to_end(functools.partial(OfflineRun, factories, args), args)


class OfflineRun(TrainingRun):
    """A training run whose steps have been collected before."""

    def collect(self, steps: int) -> None:
        """Make the updates that this many steps pay for."""
        for _ in range(steps):
            self.stop.check()
            self.step.increment()
            self.learner(int(self.step))

    def _add_parts(self, factories: Factories, cleanup: contextlib.ExitStack) -> None:
        if not self.checkpoint.exists():
            self._replay.load(directory=_replay_folder(self._args.from_replay))

    def _start_environments(self, factories: Factories, cleanup: contextlib.ExitStack) -> None:
        # Those of a training run that is continued here have no meaning any more.
        self._driver_state.load(None)

    def _print_banner(self) -> None:
        if not self.learner.ready:
            raise ValueError(
                f"Got {len(self._replay):,} items from '{self._args.from_replay}', expected at "
                f"least {self.learner.needed:,}, the steps of a batch; collect more of them."
            )
        print(f"Learning from {len(self._replay):,} items, none are added.", flush=True)


def _replay_folder(path: str) -> Path:
    folder = Path(path).expanduser()
    inside = folder / "replay"
    return inside if inside.is_dir() else folder
