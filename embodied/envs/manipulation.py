"""The manipulation tasks of dm_control: a robot arm and blocks."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs
from embodied.core.space import Space
from embodied.core.suggest import hint
from embodied.core.wrappers.actions import ActionRepeat
from embodied.envs import gl
from embodied.envs.errors import EnvError, UnknownTask
from embodied.envs.from_dm import FromDM

CAMERA = "front_close"
#: Tasks that come with full knowledge of the scene and with pictures.
BOTH = (
    "stack_2_bricks",
    "stack_2_bricks_moveable_base",
    "stack_3_bricks",
    "stack_2_of_3_bricks_random_order",
    "reassemble_3_bricks_fixed_order",
    "reassemble_5_bricks_random_order",
    "lift_brick",
    "lift_large_box",
    "place_brick",
    "place_cradle",
    "reach_duplo",
    "reach_site",
)
TASKS = (
    *(f"{task}_{kind}" for task in BOTH for kind in ("features", "vision")),
    "stack_3_bricks_random_order_features",
)


class Manipulation(Env):
    """One task. Episodes last 10 seconds, 250 control steps, and end without a terminal step.

    `..._features` observes arm and objects, `..._vision` the arm and `image`, a picture.
    """

    def __init__(
        self,
        task: str,
        repeat: int = 1,
        size: tuple[int, int] = (64, 64),
        seed: int = 0,
    ) -> None:
        """Load the task.

        Args:
          task: A name of `TASKS`, those of `dm_control.manipulation`.
          repeat: Control steps per action; rewards are summed.
          size: Height and width of the picture in pixels.
          seed: Seed of the scenes.

        Raises:
          UnknownTask: There is no such task.
          RenderingUnavailable: The task has pictures and no OpenGL backend works.
          EnvError: `repeat` is less than 1.
        """
        if task not in TASKS:
            raise UnknownTask(f"Unknown manipulation task {task!r}.{hint(task, TASKS)}")
        if repeat < 1:
            raise EnvError(f"Got repeat {repeat}, expected at least 1 step per action.")
        self._image = task.endswith("_vision")
        self._size = (int(size[0]), int(size[1]))
        gl.load_dm_control(pictures=self._image)
        manipulation = importlib.import_module("dm_control.manipulation")
        self._scene = manipulation.load(task, seed=seed)
        # The suite's own picture has a fixed size.
        inner = FromDM(self._scene, ignore=(CAMERA,))
        self._env: Env = ActionRepeat(inner, repeat) if repeat != 1 else inner

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of what `step` returns."""
        picture = {"image": Space(np.uint8, (*self._size, 3))} if self._image else {}
        return {**picture, **self._env.obs_space}

    @property
    def act_space(self) -> dict[str, Space]:
        """Spaces of what `step` takes."""
        return self._env.act_space

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Move the arm, or set up a new scene."""
        obs = self._env.step(action)
        if not self._image:
            return obs
        # The simulation is compiled anew for every episode, so it is not kept.
        picture = self._scene.physics.render(*self._size, camera_id=CAMERA)
        return {"image": np.ascontiguousarray(picture), **obs}

    def close(self) -> None:
        """Free the simulation and the rendering context."""
        self._env.close()
