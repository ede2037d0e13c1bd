"""Memory Maze, mazes with objects to find again and again (Pasukonis et al., 2022)."""

from __future__ import annotations

import importlib

from embodied.core.suggest import hint
from embodied.core.wrappers.base import Wrapper
from embodied.envs import gl
from embodied.envs.errors import EnvError, UnknownTask
from embodied.envs.from_dm import FromDM

TASKS = ("9x9", "11x11", "13x13", "15x15")


class MemoryMaze(Wrapper):
    """One maze per episode. Touching the object whose color frames the picture pays 1.

    Observation: `image`. Six actions. Episodes of 1000 (9x9) to 4000 steps (15x15) end without a
    terminal step.
    """

    def __init__(
        self,
        task: str,
        size: tuple[int, int] = (64, 64),
        visible: bool = False,
        seed: int = 0,
    ) -> None:
        """Build the maze.

        Args:
          task: Size of the maze, `9x9` to `15x15`.
          size: Height and width of the picture in pixels, which have to be the same.
          visible: Low walls and high objects, so that they are seen from far away.
          seed: Seed of mazes and starts.

        Raises:
          UnknownTask: There is no such maze.
          RenderingUnavailable: No OpenGL backend works.
          EnvError: The picture is not a square.
        """
        if task not in TASKS:
            raise UnknownTask(f"Unknown memmaze task {task!r}.{hint(task, TASKS)}")
        if size[0] != size[1]:
            raise EnvError(f"Got size {tuple(size)}, expected a square, such as 64 64.")
        gl.load_dm_control(pictures=True)
        tasks = importlib.import_module("memory_maze.tasks")
        make = getattr(tasks, f"memory_maze_{task}")
        env = make(
            seed=seed,
            image_only_obs=True,
            camera_resolution=int(size[0]),
            good_visibility=visible,
        )
        super().__init__(FromDM(env, obs_key="image"))
