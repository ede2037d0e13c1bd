"""What one of several seeds that train together has on the host: a folder like that of any run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embodied.core.checkpoint import Checkpoint
from embodied.core.device_program import ChunkResult
from embodied.core.logger import Logger
from embodied.core.schedule import Counter, UpdatePlan
from embodied.run.episodes import EpisodeLogger
from embodied.run.options import RunOptions

#: What a device has of a seed, by name in a checkpoint.
PARTS = ("agent", "ondevice")


def seed_folders(logdir: str, count: int) -> list[str]:
    """Folder of each seed: that of the run for one, `seed0`, `seed1` and so on in it for more."""
    return [logdir] if count == 1 else [str(Path(logdir) / f"seed{i}") for i in range(count)]


class SeedRun:
    """Logger, episodes and checkpoint of a seed.

    Attributes:
      logger: Takes its metrics.
      step: Counter of its agent steps.
      episodes: Statistics of its episodes.
      checkpoint: Where it is saved.
    """

    def __init__(self, logger: Logger, options: RunOptions, plan: UpdatePlan) -> None:
        """Put the parts together.

        Args:
          logger: Takes the metrics of the seed.
          options: Options of the run, with folder and number of the seed.
          plan: The updates, which are the same for all seeds.
        """
        self.logger = logger
        self.step: Counter = logger.step
        self.episodes = EpisodeLogger(logger)
        ckpt = Path(options.logdir) / "ckpt"
        self.checkpoint = Checkpoint(ckpt, options.keep, options.keep_every, config=options.flat)
        self._held = {name: Held() for name in PARTS}
        self._sums: dict[str, float] = {}
        self._updates = self._skipped = 0
        self.checkpoint.register("step", self.step)
        self.checkpoint.register("learner", plan)
        self.checkpoint.register("episodes", self.episodes)
        for name, held in self._held.items():
            self.checkpoint.register(name, held)

    def add(self, result: ChunkResult, first: int, worlds: int) -> None:
        """Take in what has happened in a chunk.

        Args:
          result: What has happened.
          first: Iterations before the chunk.
          worlds: Environments N, each of which makes a step in every iteration.
        """
        for episode in result.episodes:
            self.step.load((first + episode.iteration) * worlds + episode.world + 1)
            length = episode.steps - 1
            self.episodes.count(episode.score, length, episode.changes, episode.logs)
        for key, value in result.sums.items():
            self._sums[key] = self._sums.get(key, 0.0) + value
        self._updates += result.updates
        self._skipped += result.skipped

    def log(self, metrics: Mapping[str, Any]) -> None:
        """Write the metrics since the last call, and others that all seeds share."""
        if self._updates:
            means = {key: total / self._updates for key, total in self._sums.items()}
            self.logger.add(means, prefix="train")
        if self._skipped:
            self.logger.add("train/skipped", self._skipped)
        self._sums, self._updates = {}, 0
        self.logger.add(self.episodes.stats(), prefix="epstats")
        self.logger.add(metrics)
        self.logger.write()

    def save(self, state: Mapping[str, Any]) -> None:
        """Start to write a checkpoint of what the device has, and of the rest."""
        for name, held in self._held.items():
            held.load(state[name])
        self.checkpoint.save(int(self.step))
        for held in self._held.values():
            held.load(None)  # It may be large.

    def steps(self) -> list[int]:
        """Steps of the complete checkpoints, the one to continue from first."""
        return [snapshot.step for snapshot in self.checkpoint.snapshots()]

    def load(self, step: int) -> dict[str, Any]:
        """Continue from the checkpoint of a step; return what the device has to continue with.

        Raises:
          DamagedCheckpointError: If it is not what was written.
        """
        paths = {snapshot.step: snapshot.path for snapshot in self.checkpoint.snapshots()}
        self.checkpoint.load(paths[step])
        return {name: held.take() for name, held in self._held.items()}


class Held:
    """A state on its way between a device and a checkpoint."""

    def __init__(self) -> None:
        self._state: Any = None

    def save(self) -> Any:
        """Return the state."""
        return self._state

    def load(self, state: Any) -> None:
        """Hold a state."""
        self._state = state

    def take(self) -> Any:
        """Return the state and forget it."""
        state, self._state = self._state, None
        return state
