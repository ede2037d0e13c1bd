"""Wrappers that end an episode early or start one anew."""

import collections
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from embodied.core.interfaces import Env, Obs, State
from embodied.core.space import Space
from embodied.core.wrappers.base import Wrapper


class TimeLimit(Wrapper):
    """Sets `is_last`, without `is_terminal`, on the `duration`-th step after a reset.

    After the end of an episode the next step starts a new one, whether or not it asks for a reset.
    """

    def __init__(self, env: Env, duration: int, reset: bool = True) -> None:
        """Wrap an environment.

        Args:
            env: Environment to wrap.
            duration: Steps per episode, not counting the reset; 0 for no limit.
            reset: Whether to reset the environment after the limit. If not, it goes on from where
                it is: the step that asks for the reset is an ordinary one (with the action it has,
                which is zero from the driver), returned with `is_first` and reward 0.

        Raises:
            ValueError: If the duration is negative.
        """
        super().__init__(env)
        if duration < 0:
            raise ValueError(
                f"Got duration {duration}, expected a number of steps or 0 for no limit."
            )
        self._duration = duration
        self._reset = reset
        self._count = 0
        self._done = True
        self._goes_on = False

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Step the environment, or start an episode."""
        if action["reset"] or self._done:
            obs = self._start(action)
        else:
            obs = self.env.step(action)
            # An environment may start an episode of its own accord, such as one that was restarted.
            self._count = 0 if obs["is_first"] else self._count + 1
        self._goes_on = False
        if self._duration and self._count >= self._duration and not obs["is_last"]:
            obs = {**obs, "is_last": np.bool_(True)}
            self._goes_on = not self._reset
        self._done = bool(obs["is_last"])
        return obs

    def save(self) -> State | None:
        """Save the environment and the position in the episode."""
        inner = super().save()
        if inner is None:
            return None
        return {
            "env": inner,
            "count": self._count,
            "done": self._done,
            "goes_on": self._goes_on,
        }

    def load(self, state: State) -> None:
        """Continue where `save` was called."""
        super().load(state["env"])
        self._count = state["count"]
        self._done = state["done"]
        self._goes_on = state["goes_on"]

    def _start(self, action: Mapping[str, Any]) -> Obs:
        self._count = 0
        if not self._goes_on:
            return self.env.step({**action, "reset": np.bool_(True)})
        obs = self.env.step({**action, "reset": np.bool_(False)})
        return {**obs, "is_first": np.bool_(True), "reward": np.float32(0)}


_LOGGER = logging.getLogger(__name__)


class RestartOnException(Wrapper):
    """Constructs the environment anew when a step raises, and goes on with a clean episode.

    The step that failed returns the first observation of a new episode (`is_first`, reward 0); the
    episode before it stays without an end. The observation `log/restarts` (int32) counts the
    restarts so far. Waiting doubles with each failure within the window. An error in the first
    construction is not caught, since it will not go away.

    A timeout of the driver must be longer than the waiting. To restart on invalid observations as
    well, construct the environment with `CheckSpaces` inside.
    """

    KEY = "log/restarts"

    def __init__(
        self,
        ctor: Callable[[], Env],
        exceptions: type[Exception] | Sequence[type[Exception]] = (Exception,),
        window: float = 300,
        maxfails: int = 2,
        wait: float = 20,
    ) -> None:
        """Construct the environment.

        Args:
            ctor: Constructor of the environment.
            exceptions: Which exceptions lead to a restart; others are raised.
            window: Seconds over which failures are counted.
            maxfails: Failures within the window that are tolerated; the next one is raised.
            wait: Seconds before the first restart, doubled for each further failure in the window.
        """
        super().__init__(ctor())
        self._ctor = ctor
        self._exceptions: tuple[type[Exception], ...]
        self._exceptions = (exceptions,) if isinstance(exceptions, type) else tuple(exceptions)
        self._window = window
        self._maxfails = maxfails
        self._wait = wait
        self._failures: collections.deque[float] = collections.deque()
        self._restarts = 0
        self._open = True

    @property
    def obs_space(self) -> dict[str, Space]:
        """Spaces of the observation and of the number of restarts."""
        return {**self.env.obs_space, self.KEY: Space(np.int32, (), 0)}

    def step(self, action: Mapping[str, Any]) -> Obs:
        """Step, or restart and return the first observation of a new episode."""
        try:
            obs = self.env.step(action)
        except self._exceptions as error:
            obs = self._restart(action, error)
        return {**obs, self.KEY: np.int32(self._restarts)}

    def close(self) -> None:
        """Close the environment, unless it failed for good and is closed already."""
        if self._open:
            self._open = False
            self.env.close()

    def save(self) -> State | None:
        """Save the environment and the number of restarts."""
        inner = super().save()
        return None if inner is None else {"env": inner, "restarts": self._restarts}

    def load(self, state: State) -> None:
        """Continue where `save` was called."""
        super().load(state["env"])
        self._restarts = state["restarts"]

    def _restart(self, action: Mapping[str, Any], error: Exception) -> Obs:
        """Try until it works or there were too many failures."""
        while True:
            self._close_failed()
            self._pause(error)
            try:
                self.env = self._ctor()
                self._open = True
                return self.env.step({**action, "reset": np.bool_(True)})
            except self._exceptions as another:
                error = another

    def _pause(self, error: Exception) -> None:
        """Count a failure and wait, raising the error if there were too many."""
        now = time.monotonic()
        while self._failures and self._failures[0] < now - self._window:
            self._failures.popleft()
        self._failures.append(now)
        count = len(self._failures)
        if count > self._maxfails:
            raise error
        self._restarts += 1
        seconds = self._wait * 2 ** (count - 1)
        message = "Environment failed %d times within %g s, restarting it in %g s."
        _LOGGER.warning(message, count, self._window, seconds, exc_info=error)
        time.sleep(seconds)

    def _close_failed(self) -> None:
        try:
            self.close()
        except Exception:
            _LOGGER.warning("The failed environment could not be closed.", exc_info=True)
