"""The agent around a model: compiles it, and moves its data between host and devices."""

import concurrent.futures
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from embodied.core.config import Config
from embodied.core.interfaces import Agent, Batch, Stream
from embodied.core.space import Space
from embodied.core.streams import Prefetch
from embodied.jax import nj
from embodied.jax.compiled import Compiler, Use, random_key
from embodied.jax.compiled_policy import CompiledPolicy
from embodied.jax.guard import Guard
from embodied.jax.memory import check_memory, describe_size
from embodied.jax.model import Model
from embodied.jax.params import (
    Params,
    creation_for_training,
    param_difference,
    placed,
    with_own_scaling,
    zeros,
)
from embodied.jax.platform import Platform, release_free_memory
from embodied.jax.sharding import from_device, own_part, policy_mesh, training_mesh


class JaxAgent(Agent):
    """Runs a model on one or several devices behind the `Agent` interface.

    The functions of the model are compiled when the agent is made, except for `report`, which is
    compiled in the background while the agent learns. Training never waits for an accelerator:
    what a call to `train` computes is returned by the next one. Every call gets its own random
    key, which depends on the seed and on how many calls of its kind came before.
    """

    def __init__(
        self,
        model: Callable[..., Model],
        obs_space: Mapping[str, Space],
        act_space: Mapping[str, Space],
        config: Config,
        platform: Platform,
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
          platform: From `prepare_process`.

        Raises:
          PlatformError: A device that was asked for is not there, or has too little memory.
        """
        self.config = config
        self.obs_space, self.act_space = dict(obs_space), dict(act_space)
        self._mesh = training_mesh(platform.name, config.jax)
        self._mesh.check_rows(config.batch_size, "batch_size")
        self._policy_mesh = policy_mesh(platform.name, config.jax)
        self._policy_mesh.check_rows(config.policy_batch, "run.envs")
        self.model = model(self.obs_space, self.act_space, config, platform.dtype)
        self._guard = Guard(config.nonfinite)
        self._on_cpu = platform.name == "cpu"

        # The lock is held while parameters are in use, which training gives away.
        self._lock = threading.Lock()
        compiler = Compiler(config.jax, platform.name)
        self._policy = CompiledPolicy(
            self.model, self.obs_space, self._policy_mesh, compiler, config.seed, self._lock
        )
        creation = creation_for_training(self.model, self.obs_space, self.act_space, config)
        layout = self._mesh.params(creation.shapes, self.model.partition_rules)
        self._shapes = placed(creation.shapes, layout)
        check_memory(self._shapes)
        print(describe_size(self._shapes, platform.name), flush=True)
        rows, copies = self._mesh.rows, self._mesh.replicated
        # The guard looks at training, where it can name the loss term.
        outputs = (layout, rows, rows, copies)
        self._train = compiler(self._run_train, (0, 2), outputs, debug_nans=False)
        self._report = compiler(self._run_report, (2,), (rows, copies))
        self._report_compiled: concurrent.futures.Future[None] | None = None

        self._counters = {"train": 0, "report": 0}
        self._pending: tuple[Any, Any] | None = None
        self._params = self._compile(lambda: creation(random_key(config.seed, Use.INIT), layout))
        self._update_policy()

    @property
    def ext_space(self) -> dict[str, Space]:
        """Spaces of what the model wants stored besides observations and actions."""
        return self.model.ext_space

    @property
    def params(self) -> dict[str, np.ndarray]:
        """A copy of all state of the model by path, optimizer and normalizers included."""
        with self._lock:
            params: dict[str, np.ndarray] = from_device(self._mesh.gather(self._params))
        return params

    def init_policy(self, batch_size: int) -> Any:
        """Return the policy carry for N environments."""
        return self._policy.initial(batch_size)

    def init_train(self, batch_size: int) -> Any:
        """Return the training carry for B rows."""
        return self._mesh.put_rows(nj.pure(self.model.init_train)({}, batch_size)[1])

    def init_report(self, batch_size: int) -> Any:
        """Return the report carry for B rows."""
        return self._mesh.put_rows(nj.pure(self.model.init_report)({}, batch_size)[1])

    def policy(self, carry: Any, obs: Batch, mode: str = "train") -> tuple[Any, Batch, Batch]:
        """Act on one observation per environment.

        Args:
          carry: What the call before returned; it is consumed.
          obs: Observations [N, ...]; keys that the agent does not know are ignored.
          mode: ``train``, ``eval`` or ``report`` sample; ``deterministic`` takes the modes of
            actions and latents.
        """
        return self._policy(carry, obs, mode)

    def train(self, carry: Any, data: Batch) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        """Take one gradient step on a batch of `stream`; outputs are those of the call before.

        Raises:
          NonFiniteError: If these are not finite and the option `nonfinite` does not skip them.
        """
        key, update = self._key(Use.TRAIN, "train"), self._counters["train"]
        with self._lock:
            self._params, carry, *results = self._train(self._params, key, carry, data)
            self._update_policy()
        self._compile_report()  # Not before the first update, which would take longer.
        previous, self._pending = self._pending, tuple(results)
        outs, metrics = from_device(previous) if previous else ({}, {})
        if previous and not self._guard.check(update - 1, metrics):
            outs, metrics = {}, {"skipped": self._guard.skipped}
        self._guard.remember(data)
        return carry, outs, metrics

    def report(self, carry: Any, data: Batch) -> tuple[Any, dict[str, Any]]:
        """Compute the metrics of the model on a batch of `stream`."""
        self._compile_report(wait=True)
        key = self._key(Use.REPORT, "report")
        with self._lock:
            carry, metrics = self._report(self._params, key, carry, data)
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
            params, pending = from_device((self._mesh.gather(self._params), self._pending))
        if pending and not self._guard.skips:
            # What is saved is sound, even if the last update has not been looked at yet.
            self._guard.check(self._counters["train"], pending[1])
        counters = {**self._policy.calls, **self._counters, "skipped": self._guard.skipped}
        return {"params": params, "counters": counters, "pending": pending}

    def load(self, data: Mapping[str, Any], regex: str | None = None) -> None:
        """Restore what `save` returned, or only the parameters whose path matches `regex`.

        Raises:
          ValueError: Parameters are missing or have other shapes; nothing is loaded then.
        """
        loaded = with_own_scaling(data["params"], self._params)
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
            layout = {path: self._params[path].sharding for path in loaded}
            self._params = {**self._params, **jax.device_put(loaded, layout)}
            self._update_policy()
            if regex is None:
                counters = dict(data["counters"])
                self._guard.skipped = counters.pop("skipped", 0)
                for kind in self._policy.calls:
                    self._policy.calls[kind] = counters.pop(kind, 0)
                self._counters.update(counters)
                self._pending = data["pending"] and tuple(data["pending"])

    def _key(self, use: Use, counter: str) -> np.ndarray:
        """Count a call and draw its random key."""
        self._counters[counter] += 1
        return random_key(self.config.seed, use, self._counters[counter])

    def _to_device(self, batch: Batch) -> Any:
        """Place what the model reads of a batch on the devices."""
        missing = sorted(self._spaces.keys() - batch.keys())
        if missing:
            raise KeyError(f"The batch lacks the keys {missing}; it has {sorted(batch)}.")
        # Steps of a run with another precision may be among them.
        cast = {
            k: batch[k] if x.discrete else batch[k].astype(x.dtype, copy=False)
            for k, x in self._spaces.items()
        }
        placed = self._mesh.put_rows(cast)
        # On CPU, an update whose inputs are there runs in this thread, which keeps its memory.
        return jax.block_until_ready(placed) if self._on_cpu else placed

    @property
    def _spaces(self) -> dict[str, Space]:
        return {**self.obs_space, **self.act_space, **self.ext_space}

    def _update_policy(self) -> None:
        """Give the policy the parameters: shared on the same device, else copied meanwhile."""
        if not self.config.jax.enable_policy:
            return
        params = self._read_by_policy(self._params)
        if self._acts_elsewhere:
            whole = {key: own_part(value) for key, value in self._mesh.gather(params).items()}
            params = jax.device_put(whole, self._policy_mesh.replicated)
        self._policy.params = params

    def _read_by_policy(self, params: Mapping[str, Any]) -> dict[str, Any]:
        pattern = self.model.policy_keys
        return {path: value for path, value in params.items() if re.search(pattern, path)}

    @property
    def _acts_elsewhere(self) -> bool:
        devices = self._mesh.devices
        return len(devices) > 1 or devices != self._policy_mesh.devices

    # What is compiled, and how.

    def _run_train(self, params: Any, key: Any, carry: Any, data: Any) -> tuple[Any, ...]:
        changed, outs = nj.pure(self.model.train)(params, carry, data, seed=key, modify=True)
        after, *results = outs
        if self._guard.skips:
            changed, after = self._guard.select(results[1], (changed, after), (params, carry))
        return changed, after, *results

    def _run_report(self, params: Any, key: Any, carry: Any, data: Any) -> tuple[Any, Any]:
        report = nj.pure(self.model.report)
        after, metrics = report(params, carry, data, seed=key, ignore=True)[1]
        return after, metrics

    def _compile(self, create: Callable[[], Params]) -> Params:
        """Compile what acts and trains, and create the parameters meanwhile."""
        config = self.config
        pool = concurrent.futures.ThreadPoolExecutor()
        try:
            created = pool.submit(create)
            args = self._example_call(self.init_train, config.batch_length)
            jobs = [pool.submit(self._train.compile, *args)]
            if config.jax.enable_policy:
                acting = self._policy_shapes()
                jobs.append(pool.submit(self._policy.compile, config.policy_batch, acting))
            for job in jobs:
                job.result()
            params = created.result()
        finally:
            # Who is interrupted does not wait for the compiler.
            pool.shutdown(wait=False, cancel_futures=True)
        release_free_memory()
        return params

    def _compile_report(self, wait: bool = False) -> None:
        """Start to compile the report, and pass on an error as soon as there is one."""

        def compile_() -> None:
            self._report.compile(*self._example_call(self.init_report, self.config.report_length))
            release_free_memory()

        if self._report_compiled is None:
            pool = concurrent.futures.ThreadPoolExecutor(1)
            self._report_compiled = pool.submit(compile_)
            pool.shutdown(wait=False)
        if wait or self._report_compiled.done():
            self._report_compiled.result()

    def _example_call(self, init: Callable[[int], Any], length: int) -> tuple[Any, ...]:
        """Arguments of training or of a report, with the shapes that the configuration implies."""
        rows = self.config.batch_size // jax.process_count()
        data = zeros(self._spaces, rows, length + self.config.replay_context)
        return self._shapes, np.zeros(2, np.uint32), init(rows), self._mesh.put_rows(data)

    def _policy_shapes(self) -> dict[str, jax.ShapeDtypeStruct]:
        """Shapes and layout of what `_update_policy` gives the policy."""
        shapes = self._read_by_policy(self._shapes)
        if not self._acts_elsewhere:
            return shapes
        return placed(shapes, dict.fromkeys(shapes, self._policy_mesh.replicated))
