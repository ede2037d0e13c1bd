"""The agent that acts with loaded parameters, for evaluation and for other programs."""

import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

import jax

from embodied.core.config import Config
from embodied.core.interfaces import Agent, Batch, Stream
from embodied.core.space import Space
from embodied.jax import nj
from embodied.jax.compiled import Compiler, Use, random_key
from embodied.jax.compiled_policy import CompiledPolicy
from embodied.jax.model import Model
from embodied.jax.params import creation_for_acting, param_difference
from embodied.jax.platform import Platform
from embodied.jax.sharding import from_device, policy_mesh


class InferenceAgent(Agent):
    """An agent that acts with loaded parameters and cannot learn.

    It needs the parameters that the policy reads and no state of the optimizer.
    """

    def __init__(
        self,
        model: Callable[..., Model],
        obs_space: Mapping[str, Space],
        act_space: Mapping[str, Space],
        config: Config,
        platform: Platform,
    ) -> None:
        """Build the model; arguments and errors are those of `JaxAgent`."""
        self.obs_space, self.act_space = dict(obs_space), dict(act_space)
        self._mesh = policy_mesh(platform.name, config.jax)
        self.model = model(self.obs_space, self.act_space, config, platform.dtype)
        self._seed = config.seed
        self._compiler = Compiler(config.jax, platform.name)
        self._policy = CompiledPolicy(
            self.model, self.obs_space, self._mesh, self._compiler, config.seed, threading.Lock()
        )

    @property
    def ext_space(self) -> dict[str, Space]:
        """Spaces of what the model wants stored besides observations and actions."""
        return self.model.ext_space

    def init_policy(self, batch_size: int) -> Any:
        """Return the policy carry for N environments."""
        return self._policy.initial(batch_size)

    def init_train(self, batch_size: int) -> Any:
        """Return an empty carry."""
        return ()

    def init_report(self, batch_size: int) -> Any:
        """Return an empty carry."""
        return ()

    def policy(self, carry: Any, obs: Batch, mode: str = "train") -> tuple[Any, Batch, Batch]:
        """Act on one observation per environment; see `JaxAgent.policy`."""
        return self._policy(carry, obs, mode)

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
        run = lambda params, key, *args: nj.pure(fn)(params, *args, seed=key)[1]  # noqa: E731
        compiled = self._compiler(run, ())

        def call(*args: Any) -> Any:
            self._policy.calls["eval"] += 1
            key = random_key(self._seed, Use.EVAL, self._policy.calls["eval"])
            return from_device(compiled(self._policy.params, key, *args))

        return call

    def save(self) -> dict[str, Any]:
        """Return the parameters and the number of calls."""
        params, counters = from_device(self._policy.params), dict(self._policy.calls)
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
        expected = creation_for_acting(self.model, self.obs_space).shapes
        difference = param_difference(expected, {k: v for k, v in loaded.items() if k in expected})
        if difference:
            raise ValueError(
                f"The checkpoint does not fit this agent: {difference}. "
                "Use the configuration that it was made with."
            )
        # Optimizers take twice the memory of what they optimize, and nobody acts with them.
        loaded = {path: value for path, value in loaded.items() if not path.startswith("opt/")}
        self._policy.params = jax.device_put(loaded, self._mesh.replicated)
