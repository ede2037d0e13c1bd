"""Finds what breaks the protocol of pure environments, by tracing them and by a few episodes.

What shows in the host loop as well, such as values out of bounds, is left to `embodied.envs.check`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np

from embodied.core.space import Space
from embodied.jax.pure_env import SIGNALS

#: What a step has to return besides the observations that are declared.
REQUIRED = ("reward", "is_last", "is_terminal")
#: Most steps of the episodes that look for automatic resets, and starts that they compare with.
STEPS, STARTS = 300, 16


def faults(env: Any, seed: int = 0) -> dict[str, str]:
    """List what breaks the protocol, a sentence by kind.

    Args:
      env: The environment, as it was made.
      seed: Seed of its random keys and of the actions.
    """
    found = traced_faults(env)
    if not found and (reason := _resets_itself(env, seed)):
        found["automatic reset"] = (
            f"{reason}; return the real last observation, what resets is the step after it"
        )
    return found


def traced_faults(env: Any) -> dict[str, str]:
    """List what can be found by tracing, which neither compiles nor computes anything."""
    found: dict[str, str] = {}
    wide = {**dict(env.obs_space), **dict(env.act_space)}
    for key, space in wide.items():
        if space.dtype.itemsize > 4:
            found[f"{key} type"] = f"declared as {space.dtype}, expected at most 32 bits"
    before = _python_state(env)
    try:
        traces = [_trace(env) for _ in range(2)]
    except Exception as error:
        words = " ".join(str(error).split())[:200]
        found["tracing"] = (
            f"reset and step are no functions of arrays: {type(error).__name__}: {words}"
        )
        return found
    found |= _side_effects(traces, before != _python_state(env))
    shapes = _shapes(env)
    found |= _state_faults(*shapes)
    return _observation_faults(env, *shapes) | found


def _arguments(env: Any) -> tuple[jax.Array, dict[str, jax.Array]]:
    return jax.random.PRNGKey(0), {k: jnp.zeros(x.shape, x.dtype) for k, x in env.act_space.items()}


def _shapes(env: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """What `reset` and `step` return, as shapes and types."""
    key, action = _arguments(env)
    first = jax.eval_shape(lambda key: env.reset(key), key)
    after = jax.eval_shape(lambda *args: env.step(*args), first[0], action, key)
    return first, after


def _trace(env: Any) -> list[tuple[str, list[np.ndarray], bool]]:
    """The programs of `reset` and `step`: their text, their constants, whether they do more."""
    key, action = _arguments(env)
    state = jax.eval_shape(lambda key: env.reset(key), key)[0]
    programs = [
        jax.make_jaxpr(lambda key: env.reset(key))(key),
        jax.make_jaxpr(lambda *args: env.step(*args))(state, action, key),
    ]
    return [
        (
            # Addresses of functions are others each time.
            re.sub(r"0x[0-9a-f]+", "", str(program)),
            [np.asarray(x) for x in program.consts],
            bool(program.effects),
        )
        for program in programs
    ]


def _python_state(env: Any) -> bytes | None:
    """Everything that the object holds; None where that cannot be told."""
    try:
        return bytes(cloudpickle.dumps(vars(env)))
    except Exception:
        return None


def _side_effects(traces: list[Any], changed: bool) -> dict[str, str]:
    found = {}
    if changed:
        found["side effect"] = "reset or step changed an attribute of the environment"
    for name, once, again in zip(("reset", "step"), *traces, strict=True):
        if once[2]:
            found["side effect"] = f"{name} calls Python, such as jax.debug.print, from inside"
        same = once[0] == again[0] and len(once[1]) == len(again[1])
        if not same or not all(map(np.array_equal, once[1], again[1])):
            found[f"{name} repeated"] = (
                "another result for the same key, such as from random numbers of NumPy; use the key"
            )
    return found


def _state_faults(first: tuple[Any, Any], after: tuple[Any, Any]) -> dict[str, str]:
    """Compare the states that `reset` and `step` return."""
    before, now = first[0], after[0]
    structures: list[Any] = [jax.tree.structure(state) for state in (before, now)]
    if structures[0] != structures[1]:
        return {"state": "another structure from step than from reset, expected the same"}
    found = {}
    pairs = zip(jax.tree.leaves_with_path(before), jax.tree.leaves(now), strict=True)
    for (path, old), new in pairs:
        name = f"state{jax.tree_util.keystr(path)}"
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            found[name] = f"{_described(new)} from step, expected {_described(old)} as from reset"
        elif old.weak_type or new.weak_type:
            where = "reset" if old.weak_type else "step"
            found[name] = (
                f"weak type from {where}, which the next operation may change; "
                f"give it a type, such as jnp.{old.dtype}(0)"
            )
    return found


def _observation_faults(env: Any, first: tuple[Any, Any], after: tuple[Any, Any]) -> dict[str, str]:
    """Compare the observations of `reset` and `step` with what is declared."""
    found = {}
    declared: Mapping[str, Space] = {**SIGNALS, **dict(env.obs_space)}
    for name, obs in (("reset", first[1]), ("step", after[1])):
        needed = [key for key in env.obs_space if key[:4] != "log/" and key not in SIGNALS]
        for key in (*needed, *(REQUIRED if name == "step" else ())):
            if key not in obs:
                found[f"{key} missing"] = f"not in the observation of {name}"
        for key, value in obs.items():
            if key not in declared:
                found[f"{key} extra"] = f"in the observation of {name}, but not in obs_space"
                continue
            space = declared[key]
            if value.shape != space.shape or value.dtype != space.dtype:
                expected = jax.ShapeDtypeStruct(space.shape, space.dtype)
                found[f"{key} type"] = (
                    f"{_described(value)} from {name}, expected {_described(expected)} as declared"
                )
        if name == "step" and "is_first" in obs:
            found["is_first"] = "in the observation of step, which never starts an episode"
    return found


def _described(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}"


def _resets_itself(env: Any, seed: int) -> str:
    """Tell from random episodes whether the state of a last step is that of a new episode."""
    starts = jax.jit(jax.vmap(lambda key: env.reset(key)[0]))(
        jax.random.split(jax.random.PRNGKey(seed), STARTS)
    )
    reasons = [_reason(_leaves(starts), *last) for last in _last_steps(env, seed)]
    return reasons[0] if reasons and all(reasons) else ""


def _reason(starts: list[np.ndarray], before: list[np.ndarray], after: list[np.ndarray]) -> str:
    """Say why a last state is that of a new episode, empty if it is not."""
    for values, old, new in zip(starts, before, after, strict=True):
        counts = values.shape[1:] == () and np.issubdtype(values.dtype, np.integer)
        if counts and (values == values[0]).all() and new == values[0] and old - values[0] > 1:
            return f"a counter that was {old} is {new} again in the state of a last step"
    same = np.ones(len(starts[0]), bool)
    moved = False
    for values, old, new in zip(starts, before, after, strict=True):
        if not _is_key(values):
            same &= (values == new).reshape(len(values), -1).all(1)
            moved |= not np.array_equal(old, new)
    return "the state of a last step is that of a first one" if same.any() and moved else ""


def _is_key(values: np.ndarray) -> bool:
    return values.dtype == np.uint32 and values.shape[-1:] == (2,)


def _last_steps(env: Any, seed: int) -> Iterator[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Leaves of the states before and after the last steps of random episodes."""
    rng, key = np.random.default_rng(seed), jax.random.PRNGKey(seed + 1)
    reset: Callable[..., Any] = jax.jit(lambda n: env.reset(jax.random.fold_in(key, n)))
    step: Callable[..., Any] = jax.jit(lambda *a: env.step(*a[1:], jax.random.fold_in(key, a[0])))
    state, last = None, True
    for n in range(STEPS):
        if last:
            state, last = reset(n)[0], False
            continue
        action = {name: space.sample(rng) for name, space in env.act_space.items()}
        before, (state, obs) = state, step(n, state, action)
        last = bool(obs["is_last"])
        if last:
            yield _leaves(before), _leaves(state)


def _leaves(state: Any) -> list[np.ndarray]:
    return [np.asarray(x) for x in jax.tree.leaves(state)]
