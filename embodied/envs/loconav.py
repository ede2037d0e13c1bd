"""Bodies with many joints that look for a goal in a maze, seen through their own eyes.

The benchmark follows the egocentric ant maze of Hafner et al. (2022), "Deep Hierarchical Planning
from Pixels", built from dm_control's bodies, arenas and tasks; the maps are our own.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs
from embodied.core.space import Space
from embodied.core.suggest import hint
from embodied.core.wrappers.actions import ActionRepeat
from embodied.envs import gl
from embodied.envs.errors import EnvError, UnknownTask
from embodied.envs.from_dm import FromDM

#: Walls are `*`, the body starts at a random `P` and the goal is at a random `G`.
MAZES: Mapping[str, str] = MappingProxyType(
    {
        "s": """
*******
*P    *
* *** *
* *G  *
*******
""",
        "m": """
*********
*P  *  G*
* * * * *
* *   * *
* ***** *
*P     G*
*********
""",
        "l": """
***********
*P    *  G*
* *** * * *
* *     * *
* * *** * *
*   * *   *
*** * * ***
*G  *    P*
***********
""",
        "xl": """
*************
*P  *     *G*
* * * *** * *
* *   *   * *
* ***** *** *
*     *     *
*** * *** * *
*G  *     *P*
* ***** *** *
*     *    G*
*************
""",
    }
)
#: Module, class, seconds of physics and of control per step, and size of a maze cell in metres.
BODIES: Mapping[str, tuple[str, str, float, float, float]] = MappingProxyType(
    {
        "ant": ("dm_control.locomotion.walkers.ant", "Ant", 0.005, 0.05, 3.0),
        "rodent": ("dm_control.locomotion.walkers.rodent", "Rat", 0.001, 0.02, 0.5),
    }
)
EYES = "egocentric_camera"


def names() -> tuple[str, ...]:
    """All task names, `<body>_maze_<map>`."""
    return tuple(f"{body}_maze_{maze}" for body in BODIES for maze in MAZES)


class LocoNav(Env):
    """One body in one maze. Reaching the goal pays 1 and ends the episode in a terminal step.

    Observations: `image`, what the body sees, and the body's own sensors, one key each.
    """

    def __init__(
        self,
        task: str,
        repeat: int = 1,
        size: tuple[int, int] = (64, 64),
        camera: int = -1,
        length: int = 3000,
        seed: int = 0,
    ) -> None:
        """Build the maze.

        Args:
          task: `<body>_maze_<map>`, such as `ant_maze_m`.
          repeat: Control steps per action; rewards are summed.
          size: Height and width of the picture in pixels.
          camera: -1 for the body's eyes, else the number of a camera of the simulation.
          length: Control steps until the time limit, which is not terminal.
          seed: Seed of starts and goals.

        Raises:
          UnknownTask: There is no such body or maze.
          RenderingUnavailable: No OpenGL backend works.
          EnvError: There is no such camera, or `repeat` is less than 1.
        """
        if task not in names():
            raise UnknownTask(f"Unknown loconav task {task!r}.{hint(task, names())}")
        if repeat < 1:
            raise EnvError(f"Got repeat {repeat}, expected at least 1 step per action.")
        body, _, maze = task.split("_")
        self._size = (int(size[0]), int(size[1]))
        self._camera = camera
        gl.load_dm_control(pictures=True)
        self._random = np.random.RandomState(seed).get_state()
        with self._own_random():
            self._maze = _build(body, MAZES[maze].strip("\n"), self._size, length, seed)
        inner = FromDM(self._maze)
        self._eyes = next(key for key in inner.obs_space if key.endswith(EYES))
        self._env: Env = ActionRepeat(inner, repeat) if repeat != 1 else inner
        cameras = self._maze.physics.model.ncam
        if not -1 <= camera < cameras:
            raise EnvError(f"Got camera {camera}, expected -1 for the eyes or 0 to {cameras - 1}.")

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of what `step` returns."""
        spaces = {"image": Space(np.uint8, (*self._size, 3)), **self._env.obs_space}
        del spaces[self._eyes]
        return spaces

    @property
    def act_space(self) -> dict[str, Space]:
        """Spaces of what `step` takes."""
        return self._env.act_space

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Move the body, or put it and the goal somewhere."""
        with self._own_random():
            obs = dict(self._env.step(action))
        picture = obs.pop(self._eyes)
        if self._camera >= 0:
            # The simulation is compiled anew for every episode, so it is not kept.
            picture = self._maze.physics.render(*self._size, camera_id=self._camera)
        return {"image": np.ascontiguousarray(picture), **obs}

    def close(self) -> None:
        """Free the simulation and the rendering context."""
        self._env.close()

    @contextlib.contextmanager
    def _own_random(self) -> Iterator[None]:
        """Give NumPy's global random state, which decides the textures, to this instance."""
        before = np.random.get_state()
        np.random.set_state(self._random)
        try:
            yield
        finally:
            self._random = np.random.get_state()
            np.random.set_state(before)


def _build(body: str, maze: str, size: tuple[int, int], length: int, seed: int) -> Any:
    """Put body, maze, goal and eyes together; returns a dm_env environment."""
    composer = importlib.import_module("dm_control.composer")
    labmaze = importlib.import_module("labmaze")
    mazes = importlib.import_module("dm_control.locomotion.arenas.mazes")
    textures = importlib.import_module("dm_control.locomotion.arenas.labmaze_textures")
    props = importlib.import_module("dm_control.locomotion.props.target_sphere")
    tasks: Any = importlib.import_module("dm_control.locomotion.tasks.random_goal_maze")
    module, name, physics_step, control_step, cell = BODIES[body]
    walker = getattr(importlib.import_module(module), name)(name="walker")
    random = np.random.RandomState(seed)
    arena = mazes.MazeWithTargets(
        maze=labmaze.FixedMazeWithRandomGoals(
            entity_layer=maze + "\n", num_spawns=1, num_objects=1, random_state=random
        ),
        xy_scale=cell,
        z_height=cell,
        wall_textures=textures.WallTextures("style_01"),
        floor_textures=textures.FloorTextures("style_01"),
        skybox_texture=textures.SkyBox("sky_03"),
    )

    class Goal(tasks.RepeatSingleGoalMaze):  # type: ignore[misc]
        """Ends at the first goal, for good."""

        def get_discount(self, physics: Any) -> float:
            reached = self._targets_obtained > self._max_repeats
            return 0.0 if reached else super().get_discount(physics)

    radius = 0.2 * cell
    task = Goal(
        walker=walker,
        maze_arena=arena,
        target=props.TargetSphere(radius=radius, height_above_ground=radius),
        contact_termination=False,
        physics_timestep=physics_step,
        control_timestep=control_step,
    )
    # After the task, which has its own idea of the size.
    eyes = getattr(walker.observables, EYES)
    eyes.enabled = True
    eyes.height, eyes.width = size
    # Half a step less, so that rounding cannot add one to the episode.
    limit = (length - 0.5) * control_step
    return composer.Environment(
        task, time_limit=limit, random_state=random, strip_singleton_obs_buffer_dim=True
    )
