"""The device-side agent: compiles a model and moves its data between host and devices."""

import concurrent.futures
import functools
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import jax
import numpy as np

from embodied.core.config import Config
from embodied.core.interfaces import Agent, Batch, Stream
from embodied.core.space import Space
from embodied.core.streams import Prefetch
from embodied.jax import nj
from embodied.jax.allocator import reuse_large_buffers
from embodied.jax.compiled import CompiledFunction
from embodied.jax.guard import Guard
from embodied.jax.platform import (
    PlatformError,
    choose_platform,
    compute_dtype,
    enable_compilation_cache,
    pick_devices,
)
from embodied.jax.transfer import from_device, param_difference, policy_params

INIT, POLICY, TRAIN, REPORT = range(4)
FAST_COMPILATION = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}


class Model(Protocol):
    """What `JaxAgent` compiles: functions of arrays that use modules, see `dreamerv3.agent`."""

    policy_keys: str

    @property
    def ext_space(self) -> dict[str, Space]:
        """Spaces of what is stored besides observations and actions."""

    def init_policy(self, batch_size: int) -> Any:
        """Return the carry of the policy."""

    def init_train(self, batch_size: int) -> Any:
        """Return the carry of training."""

    def init_report(self, batch_size: int) -> Any:
        """Return the carry of reporting."""

    def policy(self, carry: Any, obs: Any, deterministic: bool = False) -> tuple[Any, Any, Any]:
        """Return the new carry, actions and outputs to store."""

    def train(self, carry: Any, data: Any) -> tuple[Any, Any, Any]:
        """Return the new carry, outputs and metrics."""

    def report(self, carry: Any, data: Any) -> tuple[Any, Any]:
        """Return the new carry and metrics."""


class JaxAgent(Agent):
    """Runs a model on one device behind the `Agent` interface.

    The functions of the model are compiled when the agent is made. Training never waits for the
    device: what a call to `train` computes is returned by the next one. Every call gets its own
    random key, which depends on the seed and on how many calls of its kind came before.
    """

    def __init__(
        self,
        model: Callable[..., Model],
        obs_space: Mapping[str, Space],
        act_space: Mapping[str, Space],
        config: Config,
    ) -> None:
        """Build the model, create its parameters and compile.

        Args:
          model: Called as ``model(obs_space, act_space, config, dtype)``.
          obs_space: Spaces of the observations, without ``log/`` keys.
          act_space: Spaces of the actions, without ``reset``.
          config: Options of the model, and ``jax``, ``seed``, ``batch_size``, ``batch_length``,
            ``report_length``, ``replay_context``, ``policy_batch`` (number of environments to
            compile the policy for), ``prefetch`` (batches drawn ahead), ``deterministic``
            (whether batches are drawn at fixed points instead) and ``nonfinite`` (see `Guard`).

        Raises:
          PlatformError: The platform or a device that was asked for is not there.
        """
        self.config = config
        options = config.jax
        platform = choose_platform(options.platform, options.prealloc, options.mock_devices)
        enable_compilation_cache(options.cache)
        if platform == "cpu":
            reuse_large_buffers()
        self._device = _only_device(platform, options.train_devices, "train_devices")
        self._policy_device = _only_device(platform, options.policy_devices, "policy_devices")
        dtype = compute_dtype(options.compute_dtype, platform)
        self.obs_space, self.act_space = dict(obs_space), dict(act_space)
        self.model = model(self.obs_space, self.act_space, config, dtype)
        self._lock = threading.Lock()
        self._counters = {"policy": 0, "train": 0, "report": 0}
        self._pending: tuple[Any, Any] | None = None
        self._guard = Guard(config.nonfinite)
        self._params = self._init_params()
        self._policy_params = self._copy_for_policy()
        compiled = functools.partial(
            CompiledFunction,
            enabled=options.jit,
            options=FAST_COMPILATION if options.debug and platform == "cpu" else None,
            debug_nans=options.debug,
        )
        self._act = {
            deterministic: compiled(functools.partial(self._run_policy, deterministic), (2,))
            for deterministic in (False, True)
        }
        # The guard looks at training, where it can name the loss term.
        self._train = compiled(self._run_train, (0, 2), debug_nans=False)
        self._report = compiled(self._run_report, (2,))
        self._compile()

    @property
    def ext_space(self) -> dict[str, Space]:
        """Spaces of what the model wants stored besides observations and actions."""
        return self.model.ext_space

    @property
    def params(self) -> dict[str, np.ndarray]:
        """A copy of all state of the model by path, optimizer and normalizers included."""
        with self._lock:
            return from_device(self._params)

    def init_policy(self, batch_size: int) -> Any:
        """Return the policy carry for N environments."""
        return jax.device_put(self._call(self.model.init_policy, batch_size), self._policy_device)

    def init_train(self, batch_size: int) -> Any:
        """Return the training carry for B rows."""
        return jax.device_put(self._call(self.model.init_train, batch_size), self._device)

    def init_report(self, batch_size: int) -> Any:
        """Return the report carry for B rows."""
        return jax.device_put(self._call(self.model.init_report, batch_size), self._device)

    def policy(self, carry: Any, obs: Batch, mode: str = "train") -> tuple[Any, Batch, Batch]:
        """Act on one observation per environment.

        Args:
          carry: What the call before returned; it is consumed.
          obs: Observations [N, ...]; keys that the agent does not know are ignored.
          mode: ``train``, ``eval`` or ``report`` sample; ``deterministic`` takes the mode.
        """
        obs = {key: obs[key] for key in self.obs_space}
        act = self._act[mode == "deterministic"]
        carry, action, outs = act(self._policy_params, self._seed(POLICY, "policy"), carry, obs)
        return carry, *from_device((action, outs))

    def train(self, carry: Any, data: Batch) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        """Take one gradient step on a batch of `stream`; outputs are those of the call before.

        Raises:
          NonFiniteError: If these are not finite and the option `nonfinite` does not skip them.
        """
        seed, update = self._seed(TRAIN, "train"), self._counters["train"]
        with self._lock:
            self._params, carry, *results = self._train(self._params, seed, carry, data)
            self._policy_params = self._copy_for_policy()
        previous, self._pending = self._pending, tuple(results)
        outs, metrics = from_device(previous) if previous else ({}, {})
        if previous and not self._guard.check(update - 1, metrics):
            outs, metrics = {}, {"skipped": self._guard.skipped}
        self._guard.remember(data)
        return carry, outs, metrics

    def report(self, carry: Any, data: Batch) -> tuple[Any, dict[str, Any]]:
        """Compute the metrics of the model on a batch of `stream`."""
        seed = self._seed(REPORT, "report")
        with self._lock:
            carry, metrics = self._report(self._params, seed, carry, data)
        return carry, from_device(metrics)

    def stream(self, source: Stream) -> Stream:
        """Check batches, drop keys that the model does not read, place them on the device."""
        amount, deterministic = self.config.prefetch, self.config.deterministic
        return Prefetch(source, self._to_device, amount=amount, deterministic=deterministic)

    def summary(self) -> str:
        """List the number of parameters per module, all state of the model included."""
        counts: dict[str, int] = {}
        for path, value in self._params.items():
            module = path.split("/")[0]
            counts[module] = counts.get(module, 0) + value.size
        return "\n".join(f"{module}: {count:,}" for module, count in sorted(counts.items()))

    def save(self) -> dict[str, Any]:
        """Return parameters and counters, and what the last training step has yet to return."""
        with self._lock:
            params, pending = from_device((self._params, self._pending))
        if pending and not self._guard.skips:
            # What is saved is sound, even if the last update has not been looked at yet.
            self._guard.check(self._counters["train"], pending[1])
        counters = {**self._counters, "skipped": self._guard.skipped}
        return {"params": params, "counters": counters, "pending": pending}

    def load(self, data: Mapping[str, Any], regex: str | None = None) -> None:
        """Restore what `save` returned, or only the parameters whose path matches `regex`.

        Raises:
          ValueError: Parameters are missing or have other shapes; nothing is loaded then.
        """
        loaded = dict(data["params"])
        current = jax.eval_shape(lambda: self._params)
        if regex is not None:
            current = {k: v for k, v in current.items() if re.search(regex, k)}
            loaded = {k: v for k, v in loaded.items() if re.search(regex, k)}
        difference = param_difference(current, loaded)
        if difference or not loaded:
            raise ValueError(
                f"The checkpoint does not fit this agent: {difference or 'no parameter matches'}. "
                f"Use the configuration that it was made with, or load a part of it by pattern."
            )
        with self._lock:
            self._params = {**self._params, **jax.device_put(loaded, self._device)}
            self._policy_params = self._copy_for_policy()
            if regex is None:
                self._counters.update(data["counters"])
                self._guard.skipped = self._counters.pop("skipped")
                self._pending = data["pending"] and tuple(data["pending"])

    def _init_params(self) -> dict[str, jax.Array]:
        """Create all parameters by tracing one training step (row 6.5: seed [seed, 0])."""
        rows = self.config.batch_size
        data = self._example(rows, self.config.batch_length + self.config.replay_context)

        def create(seed: jax.Array, data: Any) -> dict[str, jax.Array]:
            run = lambda data: self.model.train(self.model.init_train(rows), data)  # noqa: E731
            return nj.init(run)({}, data, seed=seed)

        seed = np.random.default_rng([self.config.seed, INIT]).integers(0, 2**32, 2, np.uint32)
        return jax.device_put(jax.jit(create)(seed, data), self._device)

    def _compile(self) -> None:
        """Compile the functions side by side for the shapes that the configuration implies."""
        config, rows = self.config, self.config.batch_size
        jobs = []
        for fn, carry, length in (
            (self._train, self.init_train(rows), config.batch_length),
            (self._report, self.init_report(rows), config.report_length),
        ):
            data = self._example(rows, length + config.replay_context)
            jobs.append((fn, (self._params, np.zeros(2, np.uint32), carry, data)))
        envs, example = config.policy_batch, self._example(config.policy_batch)
        obs = {key: example[key] for key in self.obs_space}
        args = (self._policy_params, np.zeros(2, np.uint32), self.init_policy(envs), obs)
        jobs.append((self._act[False], args))
        with concurrent.futures.ThreadPoolExecutor() as pool:
            for job in [pool.submit(fn.compile, *args) for fn, args in jobs]:
                job.result()

    def _run_policy(
        self, deterministic: bool, params: Any, seed: Any, carry: Any, obs: Any
    ) -> tuple[Any, Any, Any]:
        fn = nj.pure(self.model.policy)
        return fn(params, carry, obs, deterministic, seed=seed)[1]

    def _run_train(self, params: Any, seed: Any, carry: Any, data: Any) -> tuple[Any, ...]:
        changed, outs = nj.pure(self.model.train)(params, carry, data, seed=seed, modify=True)
        after, *results = outs
        if self._guard.skips:
            changed, after = self._guard.select(results[1], (changed, after), (params, carry))
        return changed, after, *results

    def _run_report(self, params: Any, seed: Any, carry: Any, data: Any) -> tuple[Any, Any]:
        return nj.pure(self.model.report)(params, carry, data, seed=seed, ignore=True)[1]

    def _call(self, fn: Callable[..., Any], *args: Any) -> Any:
        return nj.pure(fn)({}, *args)[1]

    def _copy_for_policy(self) -> dict[str, jax.Array]:
        """Parameters for acting: shared on the same device, else copied in the background."""
        params = policy_params(self._params, self.model.policy_keys)
        if self._policy_device == self._device:
            return params
        return jax.device_put(params, self._policy_device)

    def _seed(self, kind: int, name: str) -> np.ndarray:
        self._counters[name] += 1
        rng = np.random.default_rng([self.config.seed, kind, self._counters[name]])
        return rng.integers(0, 2**32, 2, np.uint32)

    def _to_device(self, batch: Batch) -> Any:
        spaces = self._spaces
        missing = sorted(spaces.keys() - batch.keys())
        if missing:
            raise KeyError(f"The batch lacks the keys {missing}; it has {sorted(batch)}.")
        return jax.device_put({key: batch[key] for key in spaces}, self._device)

    @property
    def _spaces(self) -> dict[str, Space]:
        return {**self.obs_space, **self.act_space, **self.ext_space}

    def _example(self, *batch: int) -> Batch:
        """Make zeros of the shapes of a batch."""
        return {k: np.zeros((*batch, *v.shape), v.dtype) for k, v in self._spaces.items()}


def _only_device(platform: str, indices: Any, option: str) -> jax.Device:
    devices = pick_devices(platform, indices, option)
    if len(devices) != 1:
        raise PlatformError(
            f"Got jax.{option}={list(indices)}, but this version runs on one device; name one."
        )
    return devices[0]
