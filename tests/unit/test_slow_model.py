"""The slowly moving copy of a model."""

import jax.numpy as jnp
import numpy as np
import pytest

from embodied.jax import nj
from embodied.jax.layers import Linear
from embodied.jax.slow_model import SlowModel

X = jnp.ones((2, 3))


def build(**options):
    source = Linear(4, name="val")
    slow = SlowModel(Linear(4, name="slowval"), source=source, **options)
    return source, slow


def changed(state, amount):
    return {k: v + amount if k.startswith("val/") else v for k, v in state.items()}


@pytest.mark.parametrize("source_first", [True, False])
def test_starts_as_a_copy_at_its_own_path(source_first):
    source, slow = build(rate=0.02)

    def run(x):
        calls = [source, slow] if source_first else [slow, source]
        return [call(x) for call in calls]

    state = nj.init(run)({}, X, seed=0)
    assert state.keys() == {
        "val/kernel",
        "val/bias",
        "slowval/kernel",
        "slowval/bias",
        "slowval_count/value",
    }
    np.testing.assert_array_equal(state["slowval/kernel"], state["val/kernel"])
    assert np.abs(state["val/kernel"]).max() > 0
    assert state["slowval_count/value"] == 0 and state["slowval_count/value"].dtype == jnp.int32
    _, (one, two) = nj.pure(run)(state, X)
    np.testing.assert_array_equal(one, two)


def test_path_of_the_counter_does_not_depend_on_the_scope():
    with nj.scope("agent"):
        model = Linear(4, name="slowval")
        slow = SlowModel(model, source=Linear(4, name="val"))
    state = nj.init(slow)({}, X, seed=0)
    assert "agent/slowval_count/value" in state


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"rate": 0.25, "every": 1}, [0.25, 0.4375, 0.578125, 0.68359375]),
        ({"rate": 0.25, "every": 2}, [0.25, 0.25, 0.4375, 0.4375]),
        ({"rate": 1.0, "every": 3}, [1, 1, 1, 1]),
        ({"rate": 0.25, "every": 1, "copy_first": True}, [1, 1, 1, 1]),
    ],
)
def test_follows_the_source(options, expected):
    _, slow = build(**options)
    state = nj.init(slow)({}, X, seed=0)
    start = np.asarray(state["slowval/kernel"])
    state = changed(state, 1.0)
    for count, share in enumerate(expected):
        state, _ = nj.pure(slow.update)(state, modify=True)
        np.testing.assert_allclose(state["slowval/kernel"], start + share, rtol=1e-5)
        np.testing.assert_allclose(state["slowval/bias"], share, rtol=1e-6)
        assert state["slowval_count/value"] == count + 1
        assert (state["val/kernel"] == start + 1.0).all()


def test_first_copy_is_followed_by_slow_changes():
    _, slow = build(rate=0.25, copy_first=True)
    state = changed(nj.init(slow)({}, X, seed=0), 1.0)
    state, _ = nj.pure(slow.update)(state, modify=True)
    state, _ = nj.pure(slow.update)(changed(state, 1.0), modify=True)
    np.testing.assert_allclose(state["slowval/bias"], 1.25, rtol=1e-6)


def test_existing_parameters_are_not_overwritten_at_creation():
    _, slow = build(rate=0.5)
    state = changed(nj.init(slow)({}, X, seed=0), 3.0)
    again = nj.init(slow)(state, X, seed=1)
    np.testing.assert_array_equal(again["slowval/kernel"], state["slowval/kernel"])


def test_options_out_of_range_are_refused():
    for options in ({"rate": 1.5}, {"rate": 0.1, "every": 0}):
        with pytest.raises(ValueError, match="expected a rate from 0 to 1"):
            build(**options)
