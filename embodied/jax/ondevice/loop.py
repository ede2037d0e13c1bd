"""The loop of one seed as pure functions: act, store, learn, and report.

`Loop.chunk` is what `embodied.run.train.learn_online` does, with the same functions of the model:
in each iteration all worlds step, the policy acts, the row is stored, and the updates that its
transitions pay for are made.

Shapes: N worlds, M iterations of a chunk at most, U updates of an iteration at most, B rows and W
steps of a batch.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from embodied.core.space import Space
from embodied.jax import nj, ring
from embodied.jax.guard import watched
from embodied.jax.model import Model
from embodied.jax.ondevice import episodes, updates
from embodied.jax.ondevice.evaluation import Evaluation, evaluate
from embodied.jax.ondevice.state import Position, SeedState
from embodied.jax.pure_env import Arrays, PureEnv, advance, initial, whole_obs_space

#: Made by `ring.window`, and not stored.
ADDRESSES = ("consec", "stepid")


class Loop:
    """What one seed does on the device.

    Attributes:
      spaces: Of all that is stored.
    """

    def __init__(
        self,
        model: Model,
        env: PureEnv,
        shape: ring.Shape,
        batch_size: int,
        report_window: int,
        skips: bool,
        axis: str | None = None,
    ) -> None:
        """Put the loop together.

        Args:
          model: Acts and learns.
          env: One environment.
          shape: Sizes of the replay.
          batch_size: Rows of a batch.
          report_window: Steps of a report, context included.
          skips: Whether updates that are not finite are left out.
          axis: Name of the axis of seeds, if several are mapped over.
        """
        self._model, self._env, self._shape = model, env, shape
        self._batch_size, self._report_window = batch_size, report_window
        self._skips, self._axis = skips, axis
        obs_space = whole_obs_space(env)
        self._logged = episodes.logged_scalars(obs_space)
        self._seen = {key: x for key, x in obs_space.items() if not key.startswith("log/")}
        ext = {key: x for key, x in model.ext_space.items() if key not in ADDRESSES}
        self.spaces: dict[str, Space] = {**self._seen, **env.act_space, **ext}
        # Traced once, for its shapes and for the chunk.
        self._learn = jax.jit(self._learn_from)

    def initial(self, params: Any, keys: Mapping[str, Any]) -> SeedState:
        """What a seed begins with, from the state of its model and its random keys."""
        count = self._shape.worlds
        actions = {k: jnp.zeros((count, *x.shape), x.dtype) for k, x in self._env.act_space.items()}
        return SeedState(
            params=params,
            ring=ring.empty(self._shape, self.spaces),
            worlds=initial(self._env, count, keys["worlds"]),
            carry=nj.pure(self._model.init_policy)({}, count)[1],
            action=actions,
            reset=jnp.ones(count, bool),
            episodes=episodes.no_episodes(count, self._logged),
            keys=dict(keys),
        )

    def chunk(
        self, position: Position, plan: tuple[Any, Any], count: Any, state: SeedState
    ) -> tuple[Position, SeedState, dict[str, Any]]:
        """Run iterations.

        Args:
          position: Where all seeds are.
          plan: Updates of each iteration, [M], and the world after whose transition each is due,
            [M, U].
          count: How many iterations, at most M.
          state: What the seed has.

        Returns:
          The next position and state; and what has happened: `train`, an `UpdateLog`, and
          `episodes`, their statistics after every iteration, [M, N].
        """
        due, after = plan

        def iteration(m: jax.Array, carried: Any) -> Any:
            (n, popped, k), state, logs = carried
            state, obs = self._act(state, n)

            def update(j: jax.Array, learned: Any) -> Any:
                return self._update(learned, n, after[m, j], state.keys)

            learned = state.params, state.ring, popped, k, logs["train"]
            learned = jax.lax.fori_loop(0, due[m], update, learned)
            params, stored, popped, k, train = learned
            counted = episodes.count_step(state.episodes, obs)
            row = {"ended": obs["is_last"], **counted}
            rows = jax.tree.map(lambda x, y: x.at[m].set(y), logs["episodes"], row)
            state = state._replace(params=params, ring=stored, episodes=counted)
            return Position(n + 1, popped, k), state, {"train": train, "episodes": rows}

        logs = self._empty_logs(state, len(due))
        result: tuple[Position, SeedState, dict[str, Any]] = jax.lax.fori_loop(
            0, count, iteration, (position, state, logs)
        )
        return result

    def report(self, last: Any, number: Any, state: SeedState) -> Arrays:
        """Let the model report on the first steps of windows, without using any of them up.

        Args:
          last: The newest position.
          number: Of the report, from which its random key follows.
          state: What the seed has.
        """
        shape, size = self._shape._replace(online=False), self._batch_size
        draw_key, key = jax.random.split(jax.random.fold_in(state.keys["report"], number))
        env, start, _ = ring.draw(shape, draw_key, last, shape.worlds - 1, 0, size)
        shape = shape._replace(window=self._report_window)
        data = ring.window(shape, state.ring, self.spaces, env, start)
        carry = nj.pure(self._model.init_report)({}, size)[1]
        report = nj.pure(self._model.report)
        metrics: Arrays = report(state.params, carry, data, seed=key, ignore=True)[1][1]
        return metrics

    def evaluate(self, number: Any, options: Evaluation, state: SeedState) -> Arrays:
        """Run episodes apart from training; see `evaluation.evaluate`.

        Args:
          number: Of the evaluation, from which its random key follows.
          options: How many, and how.
          state: What the seed has.
        """
        key = jax.random.fold_in(state.keys["eval"], number)
        return evaluate(self._model, self._env, state.params, key, options, self._axis)

    def watched(self, params: Any) -> list[str]:
        """Names of the metrics of an update that have to be finite, from shapes of the state."""
        return watched(self._metric_shapes(params))

    def _act(self, state: SeedState, n: jax.Array) -> tuple[SeedState, Arrays]:
        """Step all worlds, choose actions and store both; return the observations, too."""
        worlds, obs = advance(
            self._env, state.worlds, state.action, state.reset, state.keys["worlds"], n, self._axis
        )
        seen = {key: obs[key] for key in self._seen}
        key = jax.random.fold_in(state.keys["policy"], n)
        policy = nj.pure(self._model.policy)
        carry, action, outs = policy(state.params, state.carry, seen, seed=key)[1]
        ended = obs["is_last"]
        # What is stored and sent is zero where an episode has ended; the carry keeps the choice.
        sent = {
            key: jnp.where(_like(ended, action[key]), 0, action[key]).astype(space.dtype)
            for key, space in self._env.act_space.items()
        }
        stored = ring.write(self._shape, state.ring, n, {**seen, **sent, **outs})
        state = state._replace(ring=stored, worlds=worlds, carry=carry, action=sent, reset=ended)
        return state, obs

    def _update(self, learned: Any, n: jax.Array, w: jax.Array, keys: Mapping[str, Any]) -> Any:
        """Draw a batch, learn from it, and write fresh latents back."""
        params, stored, popped, k, log = learned
        key = jax.random.fold_in(keys["replay"], k)
        env, start, popped = ring.draw(self._shape, key, n, w, popped, self._batch_size)
        data = ring.window(self._shape, stored, self.spaces, env, start)
        changed, outs, metrics = self._learn(params, data, jax.random.fold_in(keys["train"], k))
        finite = updates.finite_terms(metrics).all()
        if self._skips:
            changed = jax.tree.map(lambda x, y: jnp.where(finite, x, y), changed, params)
        if "replay" in outs:
            values = dict(outs["replay"])
            stepid = jnp.where(finite, values.pop("stepid"), -1)
            stored = ring.write_back(self._shape, stored, stepid, values)
        return changed, stored, popped, k + 1, updates.count_update(log, k + 1, metrics)

    def _learn_from(self, params: Any, data: Arrays, key: jax.Array) -> tuple[Any, Any, Arrays]:
        train = nj.pure(self._model.train)
        carry = nj.pure(self._model.init_train)({}, self._batch_size)[1]
        changed, (_, outs, metrics) = train(params, carry, data, seed=key, modify=True)
        return changed, outs, metrics

    def _metric_shapes(self, params: Any) -> Any:
        step = jax.ShapeDtypeStruct((self._batch_size,), jnp.int32)
        stored = jax.eval_shape(lambda: ring.empty(self._shape, self.spaces))
        data = jax.eval_shape(
            lambda stored, step: ring.window(self._shape, stored, self.spaces, step, step),
            stored,
            step,
        )
        key = jax.ShapeDtypeStruct((2,), jnp.uint32)
        return jax.eval_shape(self._learn, params, data, key)[2]

    def _empty_logs(self, state: SeedState, length: int) -> dict[str, Any]:
        row = {"ended": state.reset, **state.episodes}
        rows = jax.tree.map(lambda x: jnp.zeros((length, *x.shape), x.dtype), row)
        shapes = self._metric_shapes(state.params)
        return {"train": updates.no_updates(shapes), "episodes": rows}


def _like(mask: jax.Array, values: jax.Array) -> jax.Array:
    """A mask [N] that broadcasts to values [N, ...]."""
    return mask.reshape(mask.shape + (1,) * (values.ndim - 1))
