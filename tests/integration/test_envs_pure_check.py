"""The check finds each way of breaking the protocol of environments in JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.core.space import Space
from embodied.envs import registry
from embodied.envs.check import check, main
from embodied.envs.pure.check import faults


class Sound:
    """Counts to five; subclasses break one rule each."""

    def __init__(self):
        self.obs_space = {"count": Space(np.int32, (), 0, 10), "noise": Space(np.float32)}
        self.act_space = {"action": Space(np.int32, (), 0, 2)}

    def reset(self, key):
        state = {"count": jnp.int32(0), "noise": jax.random.uniform(key)}
        return state, dict(state)

    def step(self, state, action, key):
        state = {"count": state["count"] + 1, "noise": jax.random.uniform(key)}
        last = state["count"] >= 5
        return state, {
            **state,
            "reward": action["action"].astype(jnp.float32),
            "is_last": last,
            "is_terminal": jnp.zeros((), bool),
        }


class WithoutTerminal(Sound):
    def step(self, state, action, key):
        state, obs = super().step(state, action, key)
        del obs["is_terminal"]
        return state, obs


class WithoutLast(Sound):
    def step(self, state, action, key):
        state, obs = super().step(state, action, key)
        del obs["is_last"]
        return state, obs


class Resets(Sound):
    def step(self, state, action, key):
        state, obs = super().step(state, action, key)
        fresh, first = self.reset(key)
        choose = lambda new, old: jnp.where(obs["is_last"], new, old)  # noqa: E731
        shown = {name: choose(first[name], obs[name]) for name in first}
        return jax.tree.map(choose, fresh, state), {**obs, **shown}


class ResetsWithoutCounter(Sound):
    """Walks from 3 to 0 at random, and starts at 3 again by itself."""

    def reset(self, key):
        state, _ = super().reset(key)
        state = {"count": jnp.int32(3)}
        return state, {**state, "noise": jnp.float32(0)}

    def step(self, state, action, key):
        count = state["count"] - action["action"]
        last = count <= 0
        _, obs = super().step({"count": count}, action, key)
        state = {"count": jnp.where(last, 3, count).astype(jnp.int32)}
        return state, {**obs, **state, "is_last": last, "is_terminal": last}


class OtherShape(Sound):
    def step(self, state, action, key):
        state, obs = super().step(state, action, key)
        return {**state, "noise": state["noise"][None]}, obs


class OtherType(Sound):
    def step(self, state, action, key):
        state, obs = super().step(state, action, key)
        return {**state, "count": state["count"].astype(jnp.float32)}, obs


class OtherStructure(Sound):
    def step(self, state, action, key):
        state, obs = super().step(state, action, key)
        return {**state, "more": state["count"]}, obs


class Weak(Sound):
    def reset(self, key):
        state, obs = super().reset(key)
        return {**state, "count": jnp.asarray(0)}, obs


class Double(Sound):
    def __init__(self):
        super().__init__()
        self.obs_space["noise"] = Space(np.float64)


class OtherObservation(Sound):
    def reset(self, key):
        state, obs = super().reset(key)
        return state, {**obs, "noise": obs["count"]}


class Undeclared(Sound):
    def step(self, state, action, key):
        state, obs = super().step(state, action, key)
        return state, {**obs, "more": obs["noise"]}


class Remembers(Sound):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def step(self, state, action, key):
        self.calls += 1
        return super().step(state, action, key)


class NumpyNoise(Sound):
    def reset(self, key):
        state, obs = super().reset(key)
        return state, {**obs, "noise": obs["noise"] + np.float32(np.random.uniform())}


class Prints(Sound):
    def step(self, state, action, key):
        jax.debug.print("{}", state["count"])
        return super().step(state, action, key)


class Branches(Sound):
    def step(self, state, action, key):
        if state["count"] > 3:
            return self.reset(key)
        return super().step(state, action, key)


WRONG = {
    WithoutTerminal: ("is_terminal missing", "not in the observation of step"),
    WithoutLast: ("is_last missing", "not in the observation of step"),
    Resets: ("automatic reset", "a counter that was 4 is 0 again"),
    ResetsWithoutCounter: ("automatic reset", "is that of a first one"),
    OtherShape: ("state['noise']", "float32[1] from step, expected float32[] as from reset"),
    OtherType: ("state['count']", "float32[] from step, expected int32[]"),
    OtherStructure: ("state", "another structure"),
    Weak: ("state['count']", "weak type from reset"),
    Double: ("noise type", "declared as float64, expected at most 32 bits"),
    OtherObservation: ("noise type", "int32[] from reset, expected float32[] as declared"),
    Undeclared: ("more extra", "not in obs_space"),
    Remembers: ("side effect", "changed an attribute"),
    NumpyNoise: ("reset repeated", "use the key"),
    Prints: ("side effect", "step calls Python"),
    Branches: ("tracing", "TracerBoolConversionError"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_each_fault_is_found(kind):
    name, words = WRONG[kind]
    found = faults(kind())
    assert name in found
    assert words in found[name]


def test_sound_environments_have_no_faults():
    assert faults(Sound()) == {}
    assert faults(registry.construct("jaxtoy_memory")) == {}
    assert faults(registry.construct("jaxtoy_grid")) == {}


def test_the_command_names_the_fault_and_does_not_step(capsys):
    assert main([f"{__name__}:WithoutTerminal"]) == 1
    out = capsys.readouterr().out
    assert "is_terminal missing: not in the observation of step" in out
    assert "steps 0" in out
    assert main([f"{__name__}:Sound", "--steps", "20"]) == 0
    assert "violations 0" in capsys.readouterr().out
    # Also of an instance by itself.
    assert "more extra" in check(registry.make(f"{__name__}:make_undeclared")).violations


def make_undeclared():
    return Undeclared()
