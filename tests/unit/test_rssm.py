"""Filtering step by step and in one sequence are the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dreamerv3.rssm import RSSM, mode
from embodied.core.space import Space
from embodied.jax import nj

ACT = {"move": Space(np.float32, (2,), -1, 1), "button": Space(np.int32, (), 0, 3)}
SIZES = {"deter": 16, "stoch": 3, "classes": 4, "hidden": 6, "blocks": 2}
ROWS, LENGTH = 3, 5


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"absolute": True, "obslayers": 0, "dynlayers": 2}, marks=pytest.mark.slow),
        pytest.param({"obslayers": 2, "dynlayers": 0}, marks=pytest.mark.slow),
    ],
)
def test_steps_equal_the_sequence(options):
    rssm = nj.make("dyn", RSSM, ACT, **SIZES, **options)
    rng = np.random.default_rng(0)
    tokens = rng.normal(size=(ROWS, LENGTH, 7)).astype(np.float32)
    reset = np.zeros((ROWS, LENGTH), bool)
    reset[0, 0] = reset[1, 2] = True
    action = {
        "move": rng.uniform(-3, 3, size=(ROWS, LENGTH, 2)).astype(np.float32),
        "button": rng.integers(0, 3, size=(ROWS, LENGTH)),
    }
    start = jax.tree.map(
        lambda x: rng.normal(size=x.shape).astype(np.float32),
        nj.pure(rssm.initial)({}, ROWS)[1],
    )

    def sequence():
        return rssm.observe(start, tokens, action, reset, mode)

    def steps():
        carry, feats = start, []
        for t in range(LENGTH):
            previous = {key: value[:, t] for key, value in action.items()}
            carry, feat = rssm.observe_step(carry, tokens[:, t], previous, reset[:, t], mode)
            feats.append(feat)
        return carry, jax.tree.map(lambda *x: jnp.stack(x, 1), *feats)

    create = nj.init(sequence)
    state = jax.jit(lambda: create({}, seed=0))()
    names = jax.eval_shape(lambda: nj.init(steps)({}, seed=0))
    assert names.keys() == state.keys()
    (last, feats), (last_step, feats_step) = (
        jax.jit(nj.pure(run))(state)[1] for run in (sequence, steps)
    )
    for whole, single in ((last, last_step), (feats, feats_step)):
        assert whole.keys() == single.keys()
        for key, value in whole.items():
            assert np.allclose(value, single[key], rtol=1e-5, atol=1e-6), key
