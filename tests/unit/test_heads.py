"""Heads: parameter names, distributions, options, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle_helpers import assert_close, group, load

from embodied.core.space import Space
from embodied.jax import nj
from embodied.jax.distributions import (
    MSE,
    Binary,
    Categorical,
    Huber,
    Independent,
    Normal,
    OneHot,
    TwoHot,
)
from embodied.jax.heads import DictHead, Head, MLPHead

X = np.random.default_rng(0).normal(size=(2, 3, 6)).astype(np.float32)
REAL, SCALAR = Space(np.float32, (4,)), Space(np.float32)
DIGIT, DIGITS = Space(np.int32, (), 0, 5), Space(np.int32, (2, 3), 0, 4)
TYPES = {
    "binary": (Space(bool), Binary, {"logit": ()}),
    "categorical": (DIGIT, Categorical, {"logits": (5,)}),
    "onehot": (DIGIT, OneHot, {"logits": (5,)}),
    "mse": (SCALAR, MSE, {"pred": ()}),
    "symlog_mse": (SCALAR, MSE, {"pred": ()}),
    "huber": (SCALAR, Huber, {"pred": ()}),
    "symexp_twohot": (SCALAR, TwoHot, {"logits": (255,)}),
    "bounded_normal": (SCALAR, Normal, {"mean": (), "stddev": ()}),
    "normal_logstd": (SCALAR, Normal, {"mean": (), "stddev": ()}),
}


def create(module, *args):
    return jax.jit(lambda: nj.init(module)({}, *args, seed=0))()


def run(module, state, fn, *args):
    return nj.pure(lambda *args: fn(module(*args)))(state, *args, seed=1)[1]


@pytest.mark.parametrize("output", TYPES)
@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_names_shapes_and_distributions(output, shape):
    space, kind, layers = TYPES[output]
    if shape:
        space = Space(space.dtype, shape, *((0, space.classes) if space.discrete else ()))
    head = Head(space, output, name="head")
    state = create(head, X)
    expected = {}
    for name, sizes in layers.items():
        size = int(np.prod((*shape, *sizes)))
        expected |= {f"head/{name}/kernel": (6, size), f"head/{name}/bias": (size,)}
    assert {key: value.shape for key, value in state.items()} == expected

    def check(dist):
        assert type(dist) is (Independent if shape else kind)
        assert type(getattr(dist, "distribution", dist)) is kind
        assert dist.shape == (2, 3)
        return dist.pred()

    pred = jax.jit(lambda state: run(head, state, check, X))(state)
    extra = (5,) if output == "onehot" else ()
    assert pred.shape == (2, 3, *shape, *extra)
    losses = jax.jit(lambda state: run(head, state, lambda dist: dist.loss(pred), X))(state)
    assert losses.shape == (2, 3) and losses.dtype == jnp.float32


def test_dictionary_of_heads_and_mlp_head_names():
    spaces = {"move": REAL, "jump": DIGIT}
    outputs = {"move": "bounded_normal", "jump": "categorical"}
    options = {"layers": 2, "units": 8, "minstd": 0.1, "maxstd": 1.0, "outscale": 0.0}
    head = MLPHead(spaces, outputs, **options, name="pol")
    state = create(head, X, 2)
    layers = ["head/jump/logits", "head/move/mean", "head/move/stddev"]
    layers += ["mlp/linear0", "mlp/linear1"]
    names = {f"pol/{layer}/{part}" for layer in layers for part in ("kernel", "bias")}
    assert state.keys() == names | {"pol/mlp/norm0/scale", "pol/mlp/norm1/scale"}
    dists = run(head, state, lambda x: {k: (d.shape, d.pred()) for k, d in x.items()}, X, 2)
    assert dists.keys() == spaces.keys()
    assert dists["move"][0] == dists["jump"][0] == (2, 3)
    # The scale of the output concerns the head but not the hidden layers.
    for key, value in state.items():
        if key.endswith("kernel"):
            assert (np.abs(value).max() > 0) == ("/mlp/" in key)
    both = DictHead(spaces | {"jump": SCALAR}, "mse", name="vec")
    assert create(both, X).keys() == {
        f"vec/{key}/pred/{part}" for key in spaces for part in ("kernel", "bias")
    }


def test_mlp_head_flattens_feature_dimensions():
    head = MLPHead(SCALAR, output="symexp_twohot", layers=1, units=8, outscale=0.0, name="val")
    state = create(head, X, 1)
    assert state["val/mlp/linear0/kernel"].shape == (18, 8)
    assert run(head, state, lambda dist: dist.shape, X, 1) == (2,)
    pred = jax.jit(lambda x: run(head, state, lambda dist: dist.pred(), x, 1))(X)
    np.testing.assert_array_equal(pred, [0, 0])


def test_compute_dtype_of_the_input_is_kept_until_the_distribution():
    head = MLPHead(REAL, "bounded_normal", layers=1, units=8, name="pol")
    state = create(head, X, 2)
    mean = run(head, state, lambda dist: dist.distribution.mean, jnp.bfloat16(X), 2)
    assert mean.dtype == jnp.float32
    np.testing.assert_array_equal(mean, mean.astype(jnp.bfloat16).astype(jnp.float32))


def test_bounded_normal_matches_recording():
    rec = group(load("outputs"), "bounded_normal")
    head = Head(REAL, "bounded_normal", minstd=0.1, maxstd=1.0, name="head")
    zero = np.zeros((4, 4), np.float32)
    for mean, stddev, means, stddevs in zip(
        rec["raw_mean"], rec["raw_stddev"], rec["mean"], rec["stddev"], strict=True
    ):
        state = {"head/mean/kernel": zero, "head/stddev/kernel": zero}
        state |= {"head/mean/bias": mean, "head/stddev/bias": stddev}
        dist = run(head, state, lambda dist: dist.distribution, zero[0])
        assert_close(dist.mean, means)
        assert_close(dist.stddev, stddevs)
    bound = lambda std: 0.5 * np.log(2 * np.pi * np.e * std**2)  # noqa: E731
    low, high = run(head, state, lambda dist: (dist.minent, dist.maxent), zero[0])
    np.testing.assert_allclose((low, high), (4 * bound(0.1), 4 * bound(1.0)), rtol=1e-6)


def test_unimix_is_off_by_default_and_mixes_when_set():
    logits = {"head/logits/kernel": np.zeros((6, 5), np.float32)}
    logits["head/logits/bias"] = np.float32([100, 0, 0, 0, 0])
    for unimix, expected in ((0.0, 0.0), (0.1, 0.02)):
        for output in ("categorical", "onehot"):
            head = Head(DIGIT, output, unimix=unimix, name="head")
            dist = run(head, logits, lambda dist: getattr(dist, "dist", dist).probs, X)
            np.testing.assert_allclose(dist[..., 1:], expected, atol=1e-7)


@pytest.mark.slow
def test_unequal_classes_and_ranges_that_do_not_start_at_zero():
    space = Space(np.int32, (3,), [0, -2, 5], [2, 3, 9])
    head = Head(space, "categorical", unimix=0.1, name="head")
    state = create(head, X)
    assert state["head/logits/kernel"].shape == (6, 15)
    sample = run(head, state, lambda dist: dist.sample(nj.seed(), (200,)), X)
    assert (np.asarray(sample).min((0, 1, 2)) == [0, -2, 5]).all()
    assert (np.asarray(sample).max((0, 1, 2)) == [1, 2, 8]).all()
    entropy, most = run(head, state, lambda dist: (dist.entropy(), dist.maxent), X)
    np.testing.assert_allclose(most, np.log(2 * 5 * 4), rtol=1e-6)
    assert (entropy < most).all()
    assert np.isfinite(run(head, state, lambda dist: dist.loss(sample[0]), X)).all()


def test_options_of_the_paper_for_vectors():
    head = Head(REAL, "symlog_mse", tolerance=1e-8, unsquash=True, name="head")
    state = create(head, X)
    state["head/pred/bias"] = jnp.float32([0, 1, -2, 3])
    state["head/pred/kernel"] *= 0
    pred = run(head, state, lambda dist: dist.pred(), X)
    np.testing.assert_allclose(pred[0, 0], [0, np.e - 1, 1 - np.e**2, np.e**3 - 1], rtol=1e-5)
    np.testing.assert_array_equal(run(head, state, lambda dist: dist.loss(pred), X), 0)


@pytest.mark.parametrize(
    ("space", "output", "message"),
    [
        (DIGIT, "mse", "expected one of binary, categorical, onehot"),
        (REAL, "categorical", "expected one of mse, symlog_mse"),
        (REAL, "symlog_mes", "symlog_mse"),
        (DIGIT, "binary", "choose the output 'categorical'"),
    ],
)
def test_wrong_output_is_refused(space, output, message):
    with pytest.raises(ValueError, match=message):
        Head(space, output, name="head")


def test_missing_output_of_a_key_is_refused():
    with pytest.raises(ValueError, match=r"expected one for each of the keys \['a', 'b'\]"):
        DictHead({"a": REAL, "b": REAL}, {"a": "mse"}, name="vec")
    with pytest.raises(ValueError, match="Got several outputs"):
        MLPHead(REAL, {"a": "mse"}, layers=1, units=8, name="pol")
