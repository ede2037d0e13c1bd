"""DeepMind Lab, tasks in a first-person 3D world (Beattie et al., 2016)."""

from __future__ import annotations

import importlib
import re
import zlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs
from embodied.core.space import Space
from embodied.core.suggest import hint
from embodied.envs.errors import EnvError, UnknownOption, UnknownTask

#: Levels of DMLab-30, and those on which two of them are tested.
TASKS = (
    "rooms_collect_good_objects_train", "rooms_exploit_deferred_effects_train",
    "rooms_select_nonmatching_object", "rooms_watermaze", "rooms_keys_doors_puzzle",
    "language_select_described_object", "language_select_located_object",
    "language_execute_random_task", "language_answer_quantitative_question",
    "lasertag_one_opponent_small", "lasertag_three_opponents_small",
    "lasertag_one_opponent_large", "lasertag_three_opponents_large",
    "natlab_fixed_large_map", "natlab_varying_map_regrowth", "natlab_varying_map_randomized",
    "skymaze_irreversible_path_hard", "skymaze_irreversible_path_varied",
    "psychlab_arbitrary_visuomotor_mapping", "psychlab_continuous_recognition",
    "psychlab_sequential_comparison", "psychlab_visual_search",
    "explore_object_locations_small", "explore_object_locations_large",
    "explore_obstructed_goals_small", "explore_obstructed_goals_large",
    "explore_goal_locations_small", "explore_goal_locations_large",
    "explore_object_rewards_few", "explore_object_rewards_many",
    "rooms_collect_good_objects_test", "rooms_exploit_deferred_effects_test",
)  # fmt: skip
#: Rows are look right, look down, strafe right, move forward, fire, jump and crouch.
ACTIONS: Mapping[str, tuple[tuple[int, ...], ...]] = MappingProxyType(
    {
        # Espeholt et al., 2018.
        "impala": (
            (0, 0, 0, 1, 0, 0, 0), (0, 0, 0, -1, 0, 0, 0), (0, 0, -1, 0, 0, 0, 0),
            (0, 0, 1, 0, 0, 0, 0), (-20, 0, 0, 0, 0, 0, 0), (20, 0, 0, 0, 0, 0, 0),
            (-20, 0, 0, 1, 0, 0, 0), (20, 0, 0, 1, 0, 0, 0), (0, 0, 0, 0, 1, 0, 0),
        ),
        # Hessel et al., 2018.
        "popart": (
            (0, 0, 0, 1, 0, 0, 0), (0, 0, 0, -1, 0, 0, 0), (0, 0, -1, 0, 0, 0, 0),
            (0, 0, 1, 0, 0, 0, 0), (-10, 0, 0, 0, 0, 0, 0), (10, 0, 0, 0, 0, 0, 0),
            (-60, 0, 0, 0, 0, 0, 0), (60, 0, 0, 0, 0, 0, 0), (0, 10, 0, 0, 0, 0, 0),
            (0, -10, 0, 0, 0, 0, 0), (-10, 0, 0, 1, 0, 0, 0), (10, 0, 0, 1, 0, 0, 0),
            (-60, 0, 0, 1, 0, 0, 0), (60, 0, 0, 1, 0, 0, 0), (0, 0, 0, 0, 1, 0, 0),
        ),
    }
)  # fmt: skip
#: Instructions are at most so many words, each hashed to one of so many vectors of so many numbers.
WORDS, VOCABULARY, NUMBERS = 32, 2**16, 32
#: Words are runs of letters and `_`, or of what is neither that nor space.
WORD = re.compile(r"[a-z_]+|[^a-z_\s]+")
PICTURE, INSTRUCTION = "RGB_INTERLEAVED", "INSTR"


class DMLab(Env):
    """One level. The level decides when an episode ends, which is terminal.

    Observations: `image`, and for levels whose name starts with `language` also `instruction`,
    float32 [32, 32], for each word a fixed vector that a hash chooses, and zeros behind the last.
    """

    def __init__(
        self,
        task: str,
        repeat: int = 4,
        size: tuple[int, int] = (64, 64),
        actions: str = "popart",
        episodic: bool = True,
        use_seed: bool = True,
        renderer: str = "software",
        seed: int = 0,
    ) -> None:
        """Load the level.

        Args:
          task: A name of `TASKS`.
          repeat: Frames per action; rewards are summed.
          size: Height and width of the picture in pixels.
          actions: Set of actions, `popart` (15) or `impala` (9).
          episodic: End an episode where the level does; otherwise the level starts again and the
            episode goes on for ever.
          use_seed: Draw the seeds of the level from that of the run, else the level chooses.
          renderer: `software` or `hardware`.
          seed: Seed of the level.

        Raises:
          UnknownTask: There is no such level.
          UnknownOption: There is no such set of actions.
          EnvError: `repeat` is less than 1.
        """
        if task not in TASKS:
            raise UnknownTask(f"Unknown dmlab level {task!r}.{hint(task, TASKS)}")
        if actions not in ACTIONS:
            raise UnknownOption(f"Got actions {actions!r}, expected one of {', '.join(ACTIONS)}.")
        if repeat < 1:
            raise EnvError(f"Got repeat {repeat}, expected at least 1 frame per action.")
        self._size = (int(size[0]), int(size[1]))
        self._repeat, self._episodic = repeat, episodic
        self._actions = np.array(ACTIONS[actions], np.intc)
        self._language = task.startswith("language")
        self._rng = np.random.default_rng(seed) if use_seed else None
        package = importlib.import_module("deepmind_lab")
        self._lab = package.Lab(
            level=f"contributed/dmlab30/{task}",
            observations=[PICTURE, INSTRUCTION] if self._language else [PICTURE],
            config={
                "height": str(self._size[0]),
                "width": str(self._size[1]),
                "logLevel": "WARN",
            },
            renderer=renderer,
        )
        self._seen: Obs = {}
        self._text, self._vectors = "", np.zeros((WORDS, NUMBERS), np.float32)
        self._done = True

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of what `step` returns."""
        flags = {key: Space(bool) for key in ("is_first", "is_last", "is_terminal")}
        text = {"instruction": Space(np.float32, (WORDS, NUMBERS))} if self._language else {}
        picture = Space(np.uint8, (*self._size, 3))
        return {"image": picture, **text, "reward": Space(np.float32), **flags}

    @property
    def act_space(self) -> dict[str, Space]:
        """Spaces of what `step` takes."""
        return {"action": Space(np.int32, (), 0, len(self._actions)), "reset": Space(bool)}

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Act for `repeat` frames, or start an episode."""
        if action["reset"] or self._done:
            self._restart()
            return self._observe(0.0, first=True)
        reward = self._lab.step(self._actions[int(action["action"])], num_steps=self._repeat)
        over = not self._lab.is_running()
        if over and not self._episodic:
            self._restart()
        return self._observe(float(reward), last=over and self._episodic)

    def close(self) -> None:
        """Close the level."""
        self._lab.close()

    def _restart(self) -> None:
        if self._rng is None:
            self._lab.reset()
        else:
            self._lab.reset(seed=int(self._rng.integers(2**31 - 1)))

    def _observe(self, reward: float, first: bool = False, last: bool = False) -> Obs:
        """Build the observation; after the end there is nothing to see, so the last one stays."""
        self._done = last
        if not last:
            found = self._lab.observations()
            self._seen = {"image": np.array(found[PICTURE], np.uint8)}
            if self._language:
                self._seen["instruction"] = self._read(found[INSTRUCTION])
        return {
            **{key: value.copy() for key, value in self._seen.items()},
            "reward": np.float32(reward),
            "is_first": np.bool_(first),
            "is_last": np.bool_(last),
            "is_terminal": np.bool_(last),
        }

    def _read(self, text: str) -> np.ndarray:
        """Turn an instruction, which rarely changes, into vectors."""
        if text != self._text:
            self._text, self._vectors = text, embed(text)
        return self._vectors


def embed(text: str) -> np.ndarray:
    """Give each word of a text a vector of normally distributed numbers, float32 [32, 32].

    Equal words have equal vectors in every run; others share one with a probability of 1 in 65,536.
    """
    vectors = np.zeros((WORDS, NUMBERS), np.float32)
    for index, word in enumerate(WORD.findall(text.lower())[:WORDS]):
        bucket = zlib.crc32(word.encode()) % VOCABULARY
        vectors[index] = np.random.default_rng(bucket).standard_normal(NUMBERS, np.float32)
    return vectors
