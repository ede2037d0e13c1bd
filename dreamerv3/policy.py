"""A trained policy for use in other programs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dreamerv3.cli import factories, run_folder
from dreamerv3.cli.command_line import OPEN_SECTIONS
from dreamerv3.cli.presets import Presets
from embodied.core.checkpoint import Checkpoint
from embodied.core.config import Config
from embodied.core.interfaces import Env
from embodied.core.space import Space

#: Observations that the policy does not read; they may be left out.
UNREAD = ("reward", "is_last", "is_terminal")


class Policy:
    """Acts, and imagines, with the parameters of a checkpoint.

    Shapes: N environments, H imagined steps. Observations and actions are those of the wrapped
    environment (`make_env`): continuous actions range from -1 to 1, vectors are float32, images are
    uint8. Carries are opaque; a call consumes the one that it is given.

    Attributes:
      config: Every option of the run.
      obs_space: Space of each observation key.
      act_space: Space of each action key.
    """

    def __init__(
        self,
        agent: Any,
        spaces: tuple[dict[str, Space], dict[str, Space]],
        config: Config,
        mode: str = "sample",
    ) -> None:
        """Wrap an agent whose parameters are loaded; see `load_policy`."""
        self.config = config
        self.obs_space, self.act_space = spaces
        self._agent = agent
        self._mode = "deterministic" if mode == "deterministic" else "eval"
        self._predict = _predictor(agent)
        self._carry: Any = None

    def make_env(self, index: int = 0) -> Env:
        """Make an environment of the run's task, wrapped as it was for training."""
        return factories.make_eval_env(self.config, index)

    def initial(self, batch_size: int = 1) -> Any:
        """Return the carry before the first step of N environments."""
        return self._agent.init_policy(batch_size)

    def __call__(
        self, carry: Any, obs: Mapping[str, np.ndarray]
    ) -> tuple[Any, dict[str, np.ndarray]]:
        """Act on one observation per environment.

        Args:
          carry: From `initial` or the call before.
          obs: Arrays [N, ...]. `is_first` tells where an episode starts; `reward`, `is_last` and
            `is_terminal` may be left out, other keys that the agent does not know are ignored.

        Returns:
          The next carry and the actions [N, ...].

        Raises:
          KeyError: If an observation lacks keys.
        """
        missing = self.obs_space.keys() - obs.keys() - set(UNREAD)
        if missing:
            raise KeyError(f"The observation lacks the keys {sorted(missing)}; it has {[*obs]}.")
        size = len(obs["is_first"])
        batch = {
            key: np.asarray(obs[key], space.dtype)
            if key in obs
            else np.zeros((size, *space.shape), space.dtype)
            for key, space in self.obs_space.items()
        }
        carry, action, _ = self._agent.policy(carry, batch, self._mode)
        return carry, action

    def step(self, obs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Act in a single environment; the carry is kept in this object.

        Args:
          obs: One observation, without a batch dimension.

        Returns:
          One action.
        """
        if self._carry is None:
            self._carry = self.initial(1)
        batch = {key: np.asarray(value)[None] for key, value in obs.items()}
        self._carry, action = self(self._carry, batch)
        return {key: value[0] for key, value in action.items()}

    def imagine(self, carry: Any, actions: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Predict what follows if given actions are taken from now on.

        Args:
          carry: Of N environments, after a call; it is not consumed.
          actions: Actions [N, H, ...], the first one in place of what the call has returned.

        Returns:
          The prediction for each observation key [N, H, ...], images as uint8; `reward` [N, H] and
          `continue` [N, H], the probability that the episode goes on.

        Raises:
          NotImplementedError: If the model of the agent has no `imagine_actions`.
        """
        if self._predict is None:
            raise NotImplementedError(
                f"The agent '{self.config.agent_class}' has no world model to imagine with."
            )
        given = {k: np.asarray(actions[k], space.dtype) for k, space in self.act_space.items()}
        return self._predict(carry, given)


def _predictor(agent: Any) -> Callable[..., dict[str, np.ndarray]] | None:
    """Compile what imagines with the world model of an agent; None if it has none."""
    imagine = getattr(getattr(agent, "model", None), "imagine_actions", None)
    if imagine is None:
        return None
    compiled: Callable[..., dict[str, np.ndarray]] = agent.function(imagine)
    return compiled


def load_policy(path: str | os.PathLike[str], mode: str = "sample", **options: Any) -> Policy:
    """Load a trained policy.

    Args:
      path: The folder of a run, its `ckpt` folder or one checkpoint. The environment of the run's
        task has to be installed, as it tells the spaces; the replay is not needed.
      mode: `sample`, or `deterministic` for the modes of latents and actions.
      **options: Options in place of those of the run, by dotted name:
        `load_policy(path, **{"jax.platform": "cpu"})`.

    Raises:
      ConfigError: If there is no checkpoint, an option does not exist, or the class of the agent
        cannot be imported.
      ValueError: If the mode does not exist, or the parameters do not fit the options.
    """
    if mode not in ("sample", "deterministic"):
        raise ValueError(f"Got mode '{mode}', expected 'sample' or 'deterministic'.")
    run = run_folder.find_run(os.fspath(path))
    saved = run_folder.saved_options(run)
    config, _ = run_folder.adopt(Presets.load().defaults, saved, OPEN_SECTIONS)
    config = config.update({**options, "random_agent": False})
    spaces = factories.make_spaces(config)
    agent = factories.make_acting_agent(config, spaces)
    _, states = Checkpoint(run).read(os.path.expanduser(path), ["agent"])
    agent.load(states["agent"])
    return Policy(agent, spaces, config, mode)
