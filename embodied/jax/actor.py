"""The acting part of a model on its devices."""

import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from embodied.core.config import Config
from embodied.core.interfaces import Agent, Batch, Stream
from embodied.core.space import Space
from embodied.jax import nj
from embodied.jax.compiled import CompiledFunction, Compiler
from embodied.jax.platform import pick_devices, start_platform
from embodied.jax.sharding import DeviceMesh
from embodied.jax.transfer import from_device, param_difference, random_seed

#: Random keys that no other use has. Evaluations have keys of their own, so that how often one
#: looks has no influence on training.
TRAIN_STREAM, EVAL_STREAM = 1, 4


class Actor:
    """Chooses actions with parameters that somebody else provides.

    Attributes:
      params: Parameters by path, on the devices of the mesh.
      calls: How many times it has acted for training (`policy`) and else (`eval`); each call has
        a random key of its own.
    """

    def __init__(
        self,
        model: Any,
        obs_space: Mapping[str, Space],
        mesh: DeviceMesh,
        compiled: Compiler,
        seed: int,
        lock: threading.Lock,
    ) -> None:
        """Prepare the functions; nothing is compiled yet.

        Args:
          model: Has `init_policy` and `policy`, see `embodied.jax.agent.Model`.
          obs_space: Spaces of the observations.
          mesh: Devices that act.
          compiled: Makes compiled functions.
          seed: Seed of the run.
          lock: Held while the parameters are in use, which learning gives away.
        """
        self.params: dict[str, jax.Array] = {}
        self.calls = {"policy": 0, "eval": 0}
        self._model, self._obs_space, self._mesh, self._seed = model, obs_space, mesh, seed
        self._lock = lock
        # Processes that learn together act differently.
        self._process = (jax.process_index(),) if jax.process_index() else ()
        self._act: dict[bool, CompiledFunction] = {
            deterministic: compiled(self._function(deterministic), (2,))
            for deterministic in (False, True)
        }

    def initial(self, batch_size: int) -> Any:
        """Return the carry before the first step of N environments."""
        carry = nj.pure(self._model.init_policy)({}, batch_size)[1]
        return jax.device_put(carry, self._mesh.rows_or_copies(batch_size))

    def compile(self, batch_size: int, params: Any) -> None:
        """Compile sampling actions for N environments, and parameters of these shapes."""
        obs = {k: np.zeros((batch_size, *v.shape), v.dtype) for k, v in self._obs_space.items()}
        seed, carry = np.zeros(2, np.uint32), self.initial(batch_size)
        self._act[False].compile(params, seed, carry, self._place(obs))

    def __call__(self, carry: Any, obs: Batch, mode: str) -> tuple[Any, Batch, Batch]:
        """Act; see `Agent.policy`. The mode `deterministic` samples neither actions nor latents."""
        kind, stream = ("policy", TRAIN_STREAM) if mode == "train" else ("eval", EVAL_STREAM)
        placed = self._place({key: obs[key] for key in self._obs_space})
        act = self._act[mode == "deterministic"]
        with self._lock:
            self.calls[kind] += 1
            seed = random_seed(self._seed, stream, self.calls[kind], *self._process)
            carry, action, outs = act(self.params, seed, carry, placed)
        return carry, *from_device((action, outs))

    def _function(self, deterministic: bool) -> Callable[..., tuple[Any, Any, Any]]:
        def act(params: Any, seed: Any, carry: Any, obs: Any) -> tuple[Any, Any, Any]:
            return nj.pure(self._model.policy)(params, carry, obs, deterministic, seed=seed)[1]

        return act

    def _place(self, obs: Batch) -> Any:
        """Spread observations over several devices; a single one takes them as they are."""
        if len(self._mesh.devices) == 1:
            return obs
        return jax.device_put(obs, self._mesh.rows_or_copies(len(next(iter(obs.values())))))


class ActingAgent(Agent):
    """An agent that acts with loaded parameters and cannot learn.

    It needs the parameters that the policy reads and no state of the optimizer.
    """

    def __init__(
        self,
        model: Callable[..., Any],
        obs_space: Mapping[str, Space],
        act_space: Mapping[str, Space],
        config: Config,
    ) -> None:
        """Build the model; arguments and errors are those of `JaxAgent`."""
        options = config.jax
        platform, dtype = start_platform(options)
        self.obs_space, self.act_space = dict(obs_space), dict(act_space)
        self.model = model(self.obs_space, self.act_space, config, dtype)
        devices = pick_devices(platform, options.policy_devices, "policy_devices")
        self._mesh = DeviceMesh(devices, (-1, 1, 1), "policy_devices")
        self._compiled = Compiler(options, platform)
        self._seed = config.seed
        self._actor = Actor(
            self.model, self.obs_space, self._mesh, self._compiled, config.seed, threading.Lock()
        )

    @property
    def ext_space(self) -> dict[str, Space]:
        """Spaces of what the model wants stored besides observations and actions."""
        return self.model.ext_space

    def init_policy(self, batch_size: int) -> Any:
        """Return the policy carry for N environments."""
        return self._actor.initial(batch_size)

    def init_train(self, batch_size: int) -> Any:
        """Return an empty carry."""
        return ()

    def init_report(self, batch_size: int) -> Any:
        """Return an empty carry."""
        return ()

    def policy(self, carry: Any, obs: Batch, mode: str = "train") -> tuple[Any, Batch, Batch]:
        """Act on one observation per environment; see `JaxAgent.policy`."""
        return self._actor(carry, obs, mode)

    def train(self, carry: Any, data: Batch) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        """Refuse to learn."""
        raise NotImplementedError("Got a batch to learn from, but this agent only acts.")

    def report(self, carry: Any, data: Batch) -> tuple[Any, dict[str, Any]]:
        """Report nothing."""
        return carry, {}

    def stream(self, source: Stream) -> Stream:
        """Pass the source through."""
        return source

    def function(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Compile a function that uses the model's modules, with the loaded parameters.

        Args:
          fn: Function of arrays.

        Returns:
          A function of the same arguments whose outputs are on the host.
        """
        run = lambda params, seed, *args: nj.pure(fn)(params, *args, seed=seed)[1]  # noqa: E731
        compiled = self._compiled(run, ())

        def call(*args: Any) -> Any:
            self._actor.calls["eval"] += 1
            seed = random_seed(self._seed, EVAL_STREAM, self._actor.calls["eval"])
            return from_device(compiled(self._actor.params, seed, *args))

        return call

    def save(self) -> dict[str, Any]:
        """Return the parameters and the number of calls."""
        params, counters = from_device(self._actor.params), dict(self._actor.calls)
        return {"params": params, "counters": counters, "pending": None}

    def load(self, data: Mapping[str, Any], regex: str | None = None) -> None:
        """Take over parameters that `save` of this agent or of one that learns has returned.

        Args:
          data: The state; parameters that the model does not act with may be missing.
          regex: Pattern of the paths to take; whatever it is, the policy's are needed.

        Raises:
          ValueError: Parameters of the policy are missing or have other shapes.
        """
        loaded = {k: v for k, v in data["params"].items() if re.search(regex or "", k)}
        expected = self._shapes()
        difference = param_difference(expected, {k: v for k, v in loaded.items() if k in expected})
        if difference:
            raise ValueError(
                f"The checkpoint does not fit this agent: {difference}. "
                "Use the configuration that it was made with."
            )
        # Optimizers take twice the memory of what they optimize, and nobody acts with them.
        loaded = {path: value for path, value in loaded.items() if not path.startswith("opt/")}
        self._actor.params = jax.device_put(loaded, self._mesh.replicated)

    def _shapes(self) -> dict[str, Any]:
        """Shapes of the parameters that the policy reads."""
        obs = {k: np.zeros((1, *v.shape), v.dtype) for k, v in self.obs_space.items()}
        act = lambda obs: self.model.policy(self.model.init_policy(1), obs)  # noqa: E731
        create = lambda seed, obs: nj.init(act)({}, obs, seed=seed)  # noqa: E731
        return jax.eval_shape(create, np.zeros(2, np.uint32), obs)
