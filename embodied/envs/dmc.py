"""The DeepMind Control Suite: joint states, pictures or both."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs
from embodied.core.space import Space
from embodied.core.wrappers.actions import ActionRepeat
from embodied.envs import dmc_tasks, gl
from embodied.envs.errors import EnvError, RenderingUnavailable
from embodied.envs.from_dm import FromDM

#: Camera per domain where it is not the first one.
CAMERAS: Mapping[str, int | str] = MappingProxyType(
    {"quadruped": 2, "manip": "front_close", "rodent": "walker/egocentric"}
)
#: A picture that the rodent's tasks observe themselves.
EYES = "walker/egocentric_camera"


class DMC(Env):
    """A control-suite task, for example `walker_walk`, `ball_in_cup_catch` or `cup_catch`.

    Episodes last 1000 frames and, but for a few tasks, end without a terminal step. OpenGL is only
    touched if pictures are asked for. `manip_<task>` and `rodent_<task>` are those of `OTHERS`,
    with other episodes; the rodent's always need OpenGL.
    """

    def __init__(
        self,
        task: str,
        repeat: int = 1,
        size: tuple[int, int] = (64, 64),
        proprio: bool = True,
        image: bool = True,
        camera: int = -1,
        seed: int = 0,
        log_image_every: int = 0,
    ) -> None:
        """Load the task.

        Args:
          task: Domain and task, `<domain>_<task>`.
          repeat: Frames per action; rewards are summed.
          size: Height and width of pictures in pixels.
          proprio: Observe the suite's own observations (positions, velocities and so on).
          image: Observe a picture, key `image`, uint8 [height, width, 3].
          camera: Number of the camera, -1 for the usual one of the domain.
          seed: Seed of the task's random state.
          log_image_every: In every how many-th episode pictures are logged as `log/image` where
            they are not observed, 0 for never. Ignored where nothing can render.

        Raises:
          UnknownTask: There is no such task.
          RenderingUnavailable: `image` is set and no OpenGL backend works.
          EnvError: Neither `proprio` nor `image` is set, there is no such camera, or `repeat` is
            less than 1.
        """
        if not proprio and not image:
            raise EnvError("Got proprio False and image False, expected at least one to observe.")
        if repeat < 1:
            raise EnvError(f"Got repeat {repeat}, expected at least 1 frame per action.")
        domain, name = dmc_tasks.parse(task)
        self._size = (int(size[0]), int(size[1]))
        self._camera = CAMERAS.get(domain, 0) if camera == -1 else camera
        self._log_every = 0 if image else log_image_every
        self._image, self._proprio = image, proprio
        self._episodes = 0
        self._load_backend(domain)
        self._suite = domain in dmc_tasks.TASKS
        self._suite_env = _load(domain, name, seed)
        self._check_rendering(domain)
        inner = FromDM(self._suite_env, ignore=(EYES,))
        self._env: Env = ActionRepeat(inner, repeat) if repeat != 1 else inner
        self._obs_space = self._make_obs_space()

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of what `step` returns."""
        return self._obs_space

    @property
    def act_space(self) -> dict[str, Space]:
        """Spaces of what `step` takes."""
        return self._env.act_space

    @property
    def physics(self) -> Any:
        """The simulation, a `dm_control.mujoco.Physics`; `OTHERS` have a new one per episode."""
        return self._suite_env.physics

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Step the physics and add the pictures that are due."""
        obs = self._env.step(action)
        if not self._proprio:
            obs = {key: obs[key] for key in self._obs_space if key in obs}
        if obs["is_first"]:
            self._episodes += 1
        if self._image:
            obs["image"] = self._render()
        elif self._log_every and (self._episodes - 1) % self._log_every == 0:
            obs["log/image"] = self._render()
        return obs

    def close(self) -> None:
        """Free the physics and the rendering context, if there is one."""
        self._env.close()
        if self._suite:  # The others free it themselves.
            self.physics.free()

    def _load_backend(self, domain: str) -> None:
        """Import dm_control; without pictures if they are only to be logged and cannot be made."""
        if self._log_every:
            try:
                gl.load_dm_control(pictures=True)
                return
            except RenderingUnavailable:
                self._log_every = 0
        gl.load_dm_control(pictures=self._image or domain == "rodent")

    def _check_rendering(self, domain: str) -> None:
        """Render once, so that trouble with OpenGL shows before anything else is set up."""
        if not self._image and not self._log_every:
            return
        cameras = self.physics.model.ncam
        if isinstance(self._camera, int) and not 0 <= self._camera < cameras:
            raise EnvError(
                f"Got camera {self._camera} for {domain}, expected 0 to {cameras - 1}, or -1 for "
                "the usual one."
            )
        try:
            self._render()
        except Exception as error:
            # PyOpenGL, ctypes and MuJoCo all raise errors of their own kind here.
            if self._image:
                raise gl.unavailable(error) from error
            self._log_every = 0

    def _make_obs_space(self) -> dict[str, Space]:
        """Collect the spaces; they never change during a run."""
        spaces = dict(self._env.obs_space)
        if not self._proprio:
            flags = ("reward", "is_first", "is_last", "is_terminal")
            spaces = {key: spaces[key] for key in flags}
        picture = Space(np.uint8, (*self._size, 3))
        if self._image:
            return {"image": picture, **spaces}
        return {"log/image": picture, **spaces} if self._log_every else spaces

    def _render(self) -> np.ndarray:
        """Draw the scene, uint8 [height, width, 3]."""
        height, width = self._size
        picture = self.physics.render(height, width, camera_id=self._camera)
        return np.ascontiguousarray(picture)


def _load(domain: str, name: str, seed: int) -> Any:
    """Load a task of the suite or of `OTHERS`, a dm_env environment."""
    if domain == "manip":
        module = importlib.import_module("dm_control.manipulation")
        return module.load(f"{name}_features", seed=seed)
    if domain == "rodent":
        module = importlib.import_module("dm_control.locomotion.examples.basic_rodent_2020")
        return getattr(module, f"rodent_{name}")(np.random.RandomState(seed))
    suite = importlib.import_module("dm_control.suite")
    return suite.load(domain, name, task_kwargs={"random": seed})
