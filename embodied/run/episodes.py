"""Statistics of episodes, the same for every script."""

import dataclasses
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.core.aggregate import Agg
from embodied.core.logger import Logger

_REWARD_CHANGE = 0.01
_MAX_FRAMES = 1000
_WINDOW = 20


@dataclasses.dataclass(frozen=True)
class Episode:
    """A finished episode.

    Attributes:
      worker: Index of its environment.
      score: Sum of the rewards.
      length: Agent steps, the reset not counted.
      terminal: Whether it ended for good, and not by a time limit.
      videos: Pictures by key, [T, H, W, channels], if the episode was filmed.
    """

    worker: int
    score: float
    length: int
    terminal: bool
    videos: dict[str, np.ndarray]


@dataclasses.dataclass
class _Episode:
    """What is known of an unfinished episode."""

    filmed: bool
    touched: float
    score: float = 0.0
    steps: int = 0
    reward: float = 0.0
    changes: int = 0
    logs: dict[str, tuple[int, float, float]] = dataclasses.field(default_factory=dict)
    pictures: dict[str, list[np.ndarray]] = dataclasses.field(default_factory=dict)


class EpisodeLogger:
    """Collects transitions into episodes and logs each finished one.

    At the end of an episode, the logger gets `episode/score` (sum of the rewards),
    `episode/length` (agent steps, the reset not counted) and `episode/score_mean` (over the last 20
    episodes). What `stats` returns is aggregated over
    episodes: `reward_rate` (share of the steps at which the reward changed by 0.01 or more),
    `log/<key>/avg|max|sum` of the scalars that the environment logs, and `policy_<key>`, a video of
    each picture that the first worker saw, in every k-th of its episodes and at most 1000 frames
    long.

    Only whole episodes count: steps of a worker before its first `is_first` are ignored.
    """

    def __init__(
        self,
        logger: Logger | None,
        picture_every: int = 10,
        timeout: float = 0,
    ) -> None:
        """Create the collector.

        Args:
          logger: Gets the scores; its step has to count the transition before it comes here. None
            where they are logged together later.
          picture_every: Episodes of worker 0 per filmed one; 0 for no videos.
          timeout: Seconds after which an episode is forgotten whose worker has gone silent; 0
            for never, as in scripts where all workers wait for each other.
        """
        self._logger = logger
        self._picture_every = picture_every
        self._timeout = timeout
        self._episodes: dict[int, _Episode] = {}
        self._stats = Agg()
        self._started: dict[int, int] = {}
        self._scores: deque[float] = deque(maxlen=_WINDOW)
        self.finished = 0

    def add(self, transition: Mapping[str, np.ndarray], worker: int) -> Episode | None:
        """Take in one transition of a worker: reward [], flags [], and whatever else it holds.

        Returns:
          The episode that ends with the transition, if one does.
        """
        now = time.monotonic()
        self._forget_silent(now)
        if transition["is_first"]:
            self._episodes[worker] = self._start(worker, now)
        episode = self._episodes.get(worker)
        if episode is None:
            return None
        episode.touched = now
        _add_reward(episode, float(transition["reward"]))
        for key, value in transition.items():
            if key.startswith("log/") and np.ndim(value) == 0:
                _add_log(episode, key, float(value))
            elif episode.filmed and _is_picture(value):
                frames = episode.pictures.setdefault(key, [])
                if len(frames) < _MAX_FRAMES:
                    frames.append(np.array(value))
        if not transition["is_last"]:
            return None
        return self._finish(worker, bool(transition["is_terminal"]))

    def count(
        self, score: float, length: int, changes: int, logs: Mapping[str, tuple[int, float, float]]
    ) -> None:
        """Log a whole episode that has ended, also one that something else has collected.

        Args:
          score: Sum of the rewards.
          length: Agent steps, the reset not counted.
          changes: Steps at which the reward changed by 0.01 or more.
          logs: Of each logged scalar, how many values there were, their sum and their maximum.
        """
        self._scores.append(score)
        if self._logger:
            mean = sum(self._scores) / len(self._scores)
            result = {"score": score, "length": length, "score_mean": mean}
            self._logger.add(result, prefix="episode")
        self.finished += 1
        if length > 0:
            self._stats.add("reward_rate", changes / length)
        for key, (count, total, maximum) in logs.items():
            self._stats.add({f"{key}/avg": total / count, f"{key}/max": maximum})
            self._stats.add(f"{key}/sum", total)

    def forget(self) -> None:
        """Drop unfinished episodes, because the environments start anew."""
        self._episodes.clear()

    def stats(self) -> dict[str, np.ndarray]:
        """Return the statistics of the episodes that ended since the last call."""
        return self._stats.result()

    def save(self) -> dict[str, Any]:
        """Return the unfinished episodes, without their pictures, which would be large."""
        fields = [field.name for field in dataclasses.fields(_Episode)]
        kept = [name for name in fields if name not in ("filmed", "touched", "pictures")]
        episodes = {
            worker: {name: getattr(episode, name) for name in kept}
            for worker, episode in self._episodes.items()
        }
        return {"episodes": episodes, "started": dict(self._started), "scores": [*self._scores]}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue with saved episodes; those that do not go on are forgotten at the next start."""
        now = time.monotonic()
        self._started = dict(state["started"])
        self._scores.extend(state.get("scores", ()))  # Older checkpoints have none.
        self._episodes = {
            worker: _Episode(filmed=False, touched=now, **values)
            for worker, values in state["episodes"].items()
        }

    def _start(self, worker: int, now: float) -> _Episode:
        number = self._started.get(worker, 0)
        self._started[worker] = number + 1
        every = self._picture_every
        return _Episode(bool(worker == 0 and every and number % every == 0), now)

    def _finish(self, worker: int, terminal: bool) -> Episode:
        episode = self._episodes.pop(worker)
        length = episode.steps - 1
        self.count(episode.score, length, episode.changes, episode.logs)
        videos = {key: np.stack(frames) for key, frames in episode.pictures.items()}
        for key, video in videos.items():
            self._stats.add(f"policy_{key}", video, "last")
        return Episode(worker, episode.score, length, terminal, videos)

    def _forget_silent(self, now: float) -> None:
        if self._timeout > 0:
            for worker, episode in list(self._episodes.items()):
                if now - episode.touched > self._timeout:
                    del self._episodes[worker]


def _add_reward(episode: _Episode, reward: float) -> None:
    if episode.steps and abs(reward - episode.reward) >= _REWARD_CHANGE:
        episode.changes += 1
    episode.reward = reward
    episode.score += reward
    episode.steps += 1


def _add_log(episode: _Episode, key: str, value: float) -> None:
    count, total, maximum = episode.logs.get(key, (0, 0.0, value))
    episode.logs[key] = (count + 1, total + value, max(maximum, value))


def _is_picture(value: np.ndarray) -> bool:
    """Whether a value is a picture [H, W, channels]; floats only with usual channel numbers."""
    if np.ndim(value) != 3:
        return False
    return value.dtype == np.uint8 or (value.dtype.kind == "f" and value.shape[-1] in (1, 3, 4))
