"""The policy of a model, compiled for its devices."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from embodied.core.interfaces import Batch
from embodied.core.space import Space
from embodied.jax import nj
from embodied.jax.compiled import CompiledFunction, Compiler, Use, random_key
from embodied.jax.model import Model
from embodied.jax.params import Params, zeros
from embodied.jax.sharding import DeviceMesh, from_device


class CompiledPolicy:
    """Chooses actions with parameters that somebody else provides.

    Attributes:
      params: Parameters by path, on the devices of the mesh.
      calls: How many times it has acted for training (`policy`) and else (`eval`); each call has
        a random key of its own.
    """

    def __init__(
        self,
        model: Model,
        obs_space: Mapping[str, Space],
        mesh: DeviceMesh,
        compiler: Compiler,
        seed: int,
        lock: threading.Lock,
    ) -> None:
        """Prepare the functions; nothing is compiled yet.

        Args:
          model: What acts.
          obs_space: Spaces of the observations.
          mesh: Devices that act.
          compiler: Makes compiled functions.
          seed: Seed of the run.
          lock: Held while the parameters are in use, which learning gives away.
        """
        self.params: Params = {}
        self.calls = {"policy": 0, "eval": 0}
        self._model, self._obs_space, self._mesh, self._seed = model, obs_space, mesh, seed
        self._lock = lock
        # Processes that learn together act differently.
        self._process = (jax.process_index(),) if jax.process_index() else ()
        self._act: dict[bool, CompiledFunction] = {
            deterministic: compiler(self._function(deterministic), (2,))
            for deterministic in (False, True)
        }

    def initial(self, batch_size: int) -> Any:
        """Return the carry before the first step of N environments."""
        carry = nj.pure(self._model.init_policy)({}, batch_size)[1]
        return jax.device_put(carry, self._mesh.rows_or_copies(batch_size))

    def compile(self, batch_size: int, params: Any) -> None:
        """Compile sampling actions for N environments, and parameters of these shapes."""
        obs = self._place(zeros(self._obs_space, batch_size))
        self._act[False].compile(params, np.zeros(2, np.uint32), self.initial(batch_size), obs)

    def __call__(self, carry: Any, obs: Batch, mode: str) -> tuple[Any, Batch, Batch]:
        """Act; see `Agent.policy`. The mode `deterministic` samples neither actions nor latents."""
        kind, use = ("policy", Use.POLICY) if mode == "train" else ("eval", Use.EVAL)
        placed = self._place({key: obs[key] for key in self._obs_space})
        act = self._act[mode == "deterministic"]
        with self._lock:
            self.calls[kind] += 1
            key = random_key(self._seed, use, self.calls[kind], *self._process)
            carry, action, outs = act(self.params, key, carry, placed)
        return carry, *from_device((action, outs))

    def _function(self, deterministic: bool) -> Callable[..., tuple[Any, Any, Any]]:
        def act(params: Any, key: Any, carry: Any, obs: Any) -> tuple[Any, Any, Any]:
            policy = nj.pure(self._model.policy)
            after, action, outs = policy(params, carry, obs, deterministic, seed=key)[1]
            return after, action, outs

        return act

    def _place(self, obs: Batch) -> Any:
        """Spread observations over several devices; a single one takes them as they are."""
        if len(self._mesh.devices) == 1:
            return obs
        return jax.device_put(obs, self._mesh.rows_or_copies(len(next(iter(obs.values())))))
