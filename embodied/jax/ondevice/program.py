"""The program of all seeds as the host sees it: it is compiled, started and asked for results.

Shapes: S seeds, N worlds, M iterations of a chunk at most, U updates of an iteration at most.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from embodied.core.config import Config, ConfigError
from embodied.core.device_program import ChunkResult, DeviceProgram
from embodied.core.schedule import Plan
from embodied.jax import ring
from embodied.jax.compiled import Compiler, Use, random_key
from embodied.jax.model import Model
from embodied.jax.ondevice.episodes import ended_episodes
from embodied.jax.ondevice.evaluation import Evaluation
from embodied.jax.ondevice.loop import Loop
from embodied.jax.ondevice.memory import Need
from embodied.jax.ondevice.saved import loaded_seed, saved_seed
from embodied.jax.ondevice.spread import Spread
from embodied.jax.ondevice.state import Position, SeedState, seed_keys
from embodied.jax.ondevice.updates import ChunkGuard
from embodied.jax.params import creation_for_training, param_difference
from embodied.jax.platform import Platform, release_free_memory
from embodied.jax.pure_env import PureEnv, whole_obs_space
from embodied.jax.sharding import from_device, training_mesh


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of a program.

    Attributes:
      seeds: The seeds S.
      worlds: Environments per seed N.
      capacity: Most items of the replay.
      steps: Budget in steps; no more are stored.
      online: Whether each new window is trained on once, before stored ones are drawn.
      evaluation: How `evaluate` runs episodes.
    """

    seeds: Sequence[int]
    worlds: int
    capacity: int
    steps: float
    online: bool
    evaluation: Evaluation


class OnDevice(DeviceProgram):
    """Trains with several seeds at once; see `DeviceProgram` for the methods."""

    _state: SeedState

    def __init__(
        self,
        model: Callable[..., Model],
        env: PureEnv,
        config: Config,
        platform: Platform,
        sizes: Sizes,
    ) -> None:
        """Build the model and create everything; `compile` compiles.

        Args:
          model: Called as ``model(obs_space, act_space, config, dtype)``.
          env: One environment.
          config: Options of the model, and ``jax``, ``batch_size``, ``batch_length``,
            ``report_length``, ``replay_context`` and ``nonfinite`` (see `Guard`).
          platform: From `prepare_process`.
          sizes: Sizes of the program.

        Raises:
          ConfigError: The devices lack memory, or cannot share the seeds evenly.
          PlatformError: Devices that were asked for are not there.
        """
        self.seeds, self.worlds = list(sizes.seeds), sizes.worlds
        context = config.replay_context
        self.window, self.capacity = config.batch_length + context, sizes.capacity
        self._shape = ring.Shape.fitting(
            sizes.worlds, self.window, sizes.capacity, sizes.steps, sizes.online
        )
        devices = training_mesh(platform.name, config.jax).devices
        self._spread = Spread(len(self.seeds), devices)
        obs_space = {k: x for k, x in whole_obs_space(env).items() if not k.startswith("log/")}
        built = model(obs_space, dict(env.act_space), config, platform.dtype)
        skips = config.nonfinite == "skip"
        report_window = config.report_length + context
        self._loop = Loop(
            built, env, self._shape, config.batch_size, report_window, skips, self._spread.axis
        )
        creation = creation_for_training(built, obs_space, env.act_space, config)
        self._need = Need.of(self._shape, self._loop.spaces, creation.shapes, self._spread.local)
        self._need.check(devices[0])
        compiler = Compiler(config.jax, platform.name)
        self._evaluation = sizes.evaluation
        self._chunk = compiler(self._spread(self._run_chunk, True), (1,), debug_nans=False)
        self._report = compiler(self._spread(self._run_report, False), (), debug_nans=False)
        self._evaluate = compiler(self._spread(self._run_evaluation, False), (), debug_nans=False)
        names = self._loop.watched(creation.shapes)
        self._guards = [
            ChunkGuard(config.nonfinite, names, f"It was that of seed {seed}.")
            for seed in self.seeds
        ]
        self._n = self._updates = self._reports = 0
        self._place(Position(0, 0, 0), self._begin(creation))

    def compile(self, plan: Plan) -> None:
        """Compile for plans of the shapes of this one."""
        self._chunk.compile(*self._arguments(plan, 0))
        release_free_memory()

    def start(self, plan: Plan, count: int) -> Any:
        """Let the devices run `count` iterations; return a handle for `fetch`."""
        self._position, (self._state, logs) = self._chunk(*self._arguments(plan, count))
        self._n += count
        self._updates += int(plan.updates[:count].sum())
        return count, logs

    def fetch(self, handle: Any) -> list[ChunkResult]:
        """Wait for iterations and return what has happened, for each seed."""
        count, logs = handle
        logs = from_device(logs)
        parts = [jax.tree.map(lambda x, at=index: x[at], logs) for index in range(len(self.seeds))]
        for guard, part in zip(self._guards, parts, strict=True):
            guard.check(part["train"])
        return [_result(part, count) for part in parts]

    def report(self) -> list[dict[str, np.ndarray]]:
        """Metrics of the model on stored steps, for each seed, without influence on anything."""
        self._reports += 1
        shared = np.int32(self._n - 1), np.int32(self._reports)
        return self._by_seed(self._report(shared, self._state))

    def evaluate(self) -> list[dict[str, np.ndarray]]:
        """Run episodes for each seed, without influence on anything."""
        return self._by_seed(self._evaluate(np.int32(self._n), self._state))

    def save(self) -> list[dict[str, Any]]:
        """State of each seed: `agent`, as any agent saves it, and `ondevice`, all the rest."""
        position, states = from_device((tuple(self._position), self._state))
        fields = [int(x) for x in position]
        counters = {"train": self._updates, "report": self._reports}
        return [
            saved_seed(
                self._shape,
                jax.tree.map(lambda x, at=index: x[at], states),
                fields,
                {**counters, "skipped": guard.skipped},
            )
            for index, guard in enumerate(self._guards)
        ]

    def load(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Continue with what `save` has returned."""
        begun = jax.eval_shape(lambda state: jax.tree.map(lambda x: x[0], state), self._state)
        loaded = [
            loaded_seed(self._shape, self._loop.spaces, begun._replace(keys=seed_keys(seed)), saved)
            for seed, saved in zip(self.seeds, states, strict=True)
        ]
        position = Position(*states[0]["ondevice"]["position"])
        counters = states[0]["agent"]["counters"]
        self._n, self._updates = int(position.n), int(position.updates)
        self._reports = counters["report"]
        for guard, saved in zip(self._guards, states, strict=True):
            guard.skipped = saved["agent"]["counters"]["skipped"]
        self._place(position, jax.tree.map(lambda *x: np.stack(x), *loaded))

    def load_params(self, agent: Mapping[str, Any], regex: str) -> None:
        """Start all seeds from the parameters of a saved agent whose path matches a pattern."""
        loaded = {k: x for k, x in agent["params"].items() if re.search(regex, k)}
        own = {k: x for k, x in self._state.params.items() if re.search(regex, k)}
        expected = {k: jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for k, x in own.items()}
        difference = param_difference(expected, loaded)
        if difference or not loaded:
            raise ConfigError(
                f"The checkpoint does not fit this agent: {difference or 'nothing matches'}; use "
                "the options that it was made with, or load a part of it by pattern."
            )
        many = {k: np.stack([x] * len(self.seeds)) for k, x in loaded.items()}
        params = {**self._state.params, **jax.device_put(many, self._spread.split)}
        self._state = self._state._replace(params=params)

    def summary(self) -> str:
        """List the number of parameters per module of one seed, all state of the model included."""
        counts: dict[str, int] = {}
        for path, value in self._state.params.items():
            module = path.split("/")[0]
            counts[module] = counts.get(module, 0) + value.size // len(self.seeds)
        return "\n".join(f"{module}: {count:,}" for module, count in sorted(counts.items()))

    def describe_replay(self) -> str:
        """Say in one line what the replay takes on the devices."""
        return self._need.line()

    # What is compiled.

    def _run_chunk(self, shared: Any, state: SeedState) -> tuple[Position, Any]:
        position, plan, count = shared
        position, state, logs = self._loop.chunk(position, plan, count, state)
        return position, (state, logs)

    def _run_report(self, shared: Any, state: SeedState) -> Any:
        last, number = shared
        return self._loop.report(last, number, state)

    def _run_evaluation(self, number: Any, state: SeedState) -> Any:
        return self._loop.evaluate(number, self._evaluation, state)

    # State on the devices.

    def _by_seed(self, values: Any) -> list[dict[str, np.ndarray]]:
        """Wait for values [S, ...] by key."""
        values = from_device(values)
        return [{key: x[index] for key, x in values.items()} for index in range(len(self.seeds))]

    def _begin(self, creation: Any) -> SeedState:
        """What all seeds begin with, [S, ...]."""
        params = [from_device(creation(random_key(seed, Use.INIT))) for seed in self.seeds]
        keys = [seed_keys(seed) for seed in self.seeds]
        stacked = jax.tree.map(lambda *x: np.stack(x), *zip(params, keys, strict=True))
        params, keys = jax.device_put(stacked, self._spread.split)
        begin = jax.jit(jax.vmap(self._loop.initial), out_shardings=self._spread.split)
        state: SeedState = begin(params, keys)
        return state

    def _place(self, position: Position, state: SeedState) -> None:
        shared = Position(*(np.int32(x) for x in position))
        self._position = jax.device_put(shared, self._spread.shared)
        self._state = jax.device_put(state, self._spread.split)

    def _arguments(self, plan: Plan, count: int) -> tuple[Any, SeedState]:
        shared = tuple(plan), np.int32(count)
        return (self._position, *jax.device_put(shared, self._spread.shared)), self._state


def _result(logs: Mapping[str, Any], count: int) -> ChunkResult:
    train = logs["train"]
    sums = {key: float(value) for key, value in train.sums.items()}
    episodes = ended_episodes(logs["episodes"], count)
    return ChunkResult(episodes, sums, int(train.count), int(train.skipped))
