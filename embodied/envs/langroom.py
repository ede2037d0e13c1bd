"""LangRoom, a room with objects and questions about their colors (Lin et al., 2023)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs
from embodied.core.space import Space
from embodied.core.suggest import hint
from embodied.envs.errors import UnknownTask

TASKS = ("answer-only", "answer-and-echo", "echo")


class LangRoom(Env):
    """The agent moves and talks, one word per step. Episodes end without a terminal step.

    Observations: `image`, what is around the agent, and `text`, the word that is said. Actions:
    `move` and `talk`.
    """

    def __init__(
        self,
        task: str,
        view: int = 2,
        length: int = 200,
        size: tuple[int, int] = (64, 64),
        vocab: int = 15,
        logs: bool = False,
        seed: int = 0,
    ) -> None:
        """Furnish the room.

        Args:
          task: What pays: `answer-only` right answers, `echo` predicting the next word,
            `answer-and-echo` both.
          view: How many cells the agent sees in each direction.
          length: Steps per episode.
          size: Height and width of the picture in pixels, which have to be the same; see the
            package for those that fit `view`.
          vocab: Number of words, at least 15.
          logs: Log the picture with all that was said as `log/image`.
          seed: Seed of colors and questions.

        Raises:
          UnknownTask: There is no such task.
        """
        if task not in TASKS:
            raise UnknownTask(f"Unknown langroom task {task!r}.{hint(task, TASKS)}")
        package = importlib.import_module("langroom")
        self._env = package.LangRoom(
            task=task,
            view=view,
            length=length,
            resolution=int(size[0]),
            vocab_size=vocab,
            seed=seed,
        )
        self._logs = logs
        self._vocab = vocab
        self._picture = self._env.obs_space["image"].shape
        self._log_picture = self._env.obs_space["log_image"].shape

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of what `step` returns."""
        flags = {key: Space(bool) for key in ("is_first", "is_last", "is_terminal")}
        log = {"log/image": Space(np.uint8, self._log_picture)} if self._logs else {}
        return {
            "image": Space(np.uint8, self._picture),
            "text": Space(np.int32, (), 0, self._vocab),
            "reward": Space(np.float32),
            **flags,
            **log,
        }

    @property
    def act_space(self) -> dict[str, Space]:
        """Spaces of what `step` takes."""
        moves = int(np.max(self._env.act_space["move"].high))
        return {
            "move": Space(np.int32, (), 0, moves),
            "talk": Space(np.int32, (), 0, self._vocab),
            "reset": Space(bool),
        }

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Move and talk, or start an episode."""
        obs = self._env.step({key: np.asarray(value).item() for key, value in action.items()})
        result: Obs = {
            "image": np.ascontiguousarray(obs["image"]),
            "text": np.int32(obs["text"]),
            "reward": np.float32(obs["reward"]),
            **{key: np.bool_(obs[key]) for key in ("is_first", "is_last", "is_terminal")},
        }
        if self._logs:
            result["log/image"] = np.ascontiguousarray(obs["log_image"])
        return result
