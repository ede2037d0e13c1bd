"""Atari 2600 games through the Arcade Learning Environment."""

from __future__ import annotations

import collections
import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs
from embodied.core.space import Space
from embodied.core.suggest import hint
from embodied.envs.atari_games import ALIASES
from embodied.envs.errors import UnknownOption
from embodied.envs.pictures import make_resize, to_gray

NOOP, FIRE = 0, 1
#: Probability per frame that the previous action is repeated (Machado et al., 2018).
STICKINESS = 0.25
#: Frames of half an hour of play at 60 Hz, the usual limit.
HALF_HOUR = 108_000
CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "actions": ("all", "needed"),
        "lives": ("unused", "discount", "reset"),
        "aggregate": ("max", "mean"),
    }
)


class Atari(Env):
    """One game. The observation is a picture, the action a number of a joystick position.

    The episode ends in a terminal step when the game is over; the time limit is not terminal.
    """

    def __init__(
        self,
        task: str,
        repeat: int = 4,
        size: tuple[int, int] = (84, 84),
        gray: bool = True,
        noops: int = 30,
        lives: str = "unused",
        sticky: bool = True,
        actions: str = "all",
        length: int = HALF_HOUR,
        autostart: bool = False,
        pooling: int = 2,
        aggregate: str = "max",
        resize: str = "pillow",
        clip_reward: bool = False,
        seed: int = 0,
    ) -> None:
        """Load the game.

        Args:
          task: Name of the game, such as `pong`.
          repeat: Frames per action; rewards are summed.
          size: Height and width of the observation in pixels.
          gray: Brightness instead of color, one channel instead of three.
          noops: Largest number of idle frames at the start of an episode, drawn uniformly from 0.
          lives: What the loss of a life does: nothing (`unused`), the step counts as terminal but
            the episode goes on (`discount`), or the episode ends in a terminal step and the next
            one continues the game (`reset`).
          sticky: Whether the console repeats the previous action in a quarter of the frames.
          actions: All 18 joystick positions (`all`) or those that the game uses (`needed`).
          length: Frames until the time limit, idle frames excluded.
          autostart: Press FIRE after a reset in games that know it.
          pooling: Number of last frames that are combined into a picture.
          aggregate: How they are combined, `max` or `mean`.
          resize: Library that scales pictures, `pillow` or `opencv`.
          clip_reward: Reduce the reward of a step to its sign.
          seed: Seed of the console and of the idle frames.

        Raises:
          UnknownOption: A word that is not among the choices.
        """
        for name, value in (("actions", actions), ("lives", lives), ("aggregate", aggregate)):
            if value not in CHOICES[name]:
                raise UnknownOption(
                    f"Got {name} {value!r}, expected one of {', '.join(CHOICES[name])}."
                    f"{hint(value, CHOICES[name])}"
                )
        self._repeat, self._noops, self._length = repeat, noops, length
        self._size, self._gray = (int(size[0]), int(size[1])), gray
        self._lives_mode, self._autostart = lives, autostart
        self._aggregate, self._clip_reward = aggregate, clip_reward
        self._resize = make_resize(resize)
        self._rng = np.random.default_rng(seed)
        self._console = _load(ALIASES.get(task, task), sticky, seed)
        legal, minimal = self._console.getLegalActionSet, self._console.getMinimalActionSet
        self._actions = [code.value for code in (legal() if actions == "all" else minimal())]
        self._frames: collections.deque[np.ndarray] = collections.deque(maxlen=pooling)
        self._elapsed = 0
        self._lives = 0
        self._over = True
        self._done = True

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of what `step` returns."""
        return {
            "image": Space(np.uint8, (*self._size, 1 if self._gray else 3)),
            "reward": Space(np.float32),
            "is_first": Space(bool),
            "is_last": Space(bool),
            "is_terminal": Space(bool),
        }

    @property
    def act_space(self) -> dict[str, Space]:
        """Spaces of what `step` takes."""
        return {"action": Space(np.int32, (), 0, len(self._actions)), "reset": Space(bool)}

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Play `repeat` frames, or start an episode."""
        if action["reset"] or self._done:
            self._reset()
            return self._observe(0.0, first=True)
        reward, lost = 0.0, False
        for frame in range(self._repeat):
            reward += self._console.act(self._actions[int(action["action"])])
            self._elapsed += 1
            lost = self._console.lives() < self._lives
            self._over = self._console.game_over()
            stop = self._over or self._elapsed >= self._length
            stop = stop or (lost and self._lives_mode == "reset")
            if stop or frame >= self._repeat - (self._frames.maxlen or 1):
                self._frames.append(self._console.getScreenRGB())
            if stop:
                break
        self._lives = self._console.lives()
        reward = float(np.sign(reward)) if self._clip_reward else reward
        terminal = self._over or (lost and self._lives_mode != "unused")
        last = self._over or self._elapsed >= self._length
        last = last or (lost and self._lives_mode == "reset")
        return self._observe(reward, last=last, terminal=terminal)

    def _reset(self) -> None:
        """Start the game, or go on with it after the loss of a life."""
        if self._lives_mode != "reset" or self._over or self._elapsed >= self._length:
            self._restart()
        else:
            self._console.act(NOOP)
            self._over = self._console.game_over()
        if self._over:
            self._restart()
        if self._autostart and FIRE in self._actions:
            self._console.act(FIRE)
            if self._console.game_over():
                self._restart()
        self._lives = self._console.lives()
        # Nothing of the previous episode may show in the first picture.
        picture = self._console.getScreenRGB()
        self._frames.extend([picture] * (self._frames.maxlen or 1))

    def _restart(self) -> None:
        """Start a new game with a random number of idle frames."""
        self._console.reset_game()
        self._elapsed = 0
        self._over = False
        for _ in range(int(self._rng.integers(self._noops + 1))):
            self._console.act(NOOP)
            if self._console.game_over():
                self._console.reset_game()

    def _observe(
        self, reward: float, first: bool = False, last: bool = False, terminal: bool = False
    ) -> Obs:
        """Combine the last frames and build the observation."""
        self._done = last
        frames = np.stack(self._frames)
        if self._aggregate == "max":
            picture = frames.max(0)
        else:
            picture = np.rint(frames.mean(0, dtype=np.float32)).astype(np.uint8)
        if self._size != picture.shape[:2]:
            picture = self._resize(picture, self._size)
        return {
            "image": to_gray(picture) if self._gray else picture,
            "reward": np.float32(reward),
            "is_first": np.bool_(first),
            "is_last": np.bool_(last),
            "is_terminal": np.bool_(terminal),
        }


def _load(name: str, sticky: bool, seed: int) -> Any:
    """Start a console with the game, without its greeting and sound."""
    ale_py = importlib.import_module("ale_py")
    roms = importlib.import_module("ale_py.roms")
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    console = ale_py.ALEInterface()
    console.setInt("random_seed", seed % 2**31)
    console.setFloat("repeat_action_probability", STICKINESS if sticky else 0.0)
    console.loadROM(roms.get_rom_path(name))
    return console
