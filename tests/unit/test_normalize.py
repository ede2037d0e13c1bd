"""Normalizers and percentiles: recordings, invariants."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle_helpers import assert_close, group, load

from embodied.jax import nj
from embodied.jax.normalize import Normalize, order_statistics, percentiles

RECORDED = load("normalize")
CASES = {
    "perc": {"impl": "perc", "rate": 0.01, "limit": 1.0, "debias": False},
    "perc_debias": {"impl": "perc", "rate": 0.1, "perclo": 10.0, "perchi": 80.0},
    "meanstd": {"impl": "meanstd", "rate": 0.05},
    "none": {"impl": "none"},
}
STATES = {
    "perc": {"norm/lo/value", "norm/hi/value"},
    "perc_debias": {"norm/lo/value", "norm/hi/value", "norm/corr/value"},
    "meanstd": {"norm/mean/value", "norm/sqrs/value", "norm/corr/value"},
    "none": set(),
}


def create(**options):
    norm = Normalize(**options, name="norm")
    return norm, nj.init(norm)({}, jnp.zeros((4, 3)))


@pytest.mark.parametrize("name", CASES)
def test_matches_recording(name):
    norm, state = create(**CASES[name])
    assert state.keys() == STATES[name]
    assert all(value.shape == () and value.dtype == jnp.float32 for value in state.values())
    for step in range(4):
        rec = group(RECORDED, f"{name}/{step}")
        state, (offset, scale) = jax.jit(lambda s, x: nj.pure(norm)(s, x, modify=True))(
            state, rec["x"]
        )
        assert_close(offset, rec["offset"])
        assert_close(scale, rec["scale"])


@pytest.mark.parametrize("name", ["perc", "perc_debias", "meanstd"])
def test_reading_does_not_update(name):
    norm, state = create(**CASES[name])
    x = jnp.arange(12.0)
    state, _ = nj.pure(norm)(state, x, modify=True)
    same, stats = nj.pure(norm)(state, x * 100, update=False)
    assert all((same[key] == state[key]).all() for key in state)
    _, again = nj.pure(norm.stats)(state)
    assert stats == again


def test_update_comes_before_the_values_are_read():
    """The batch contributes to the scale of the same step."""
    norm, state = create(impl="perc", rate=0.5, limit=1.0, debias=False)
    _, (offset, scale) = nj.pure(norm)(state, jnp.linspace(0, 100, 101), modify=True)
    np.testing.assert_allclose((offset, scale), (0.5 * 5, 0.5 * 90), rtol=1e-6)


def test_debiased_statistics_of_a_constant_stream_are_exact_at_once():
    x = jnp.linspace(-3, 8, 50)
    for impl, offset, scale in (
        ("perc", np.percentile(x, 5), np.percentile(x, 95) - np.percentile(x, 5)),
        ("meanstd", x.mean(), x.std()),
    ):
        norm, state = create(impl=impl)
        for _ in range(3):
            state, stats = nj.pure(norm)(state, x, modify=True)
            np.testing.assert_allclose(stats, (offset, scale), rtol=1e-5)


def test_scale_has_a_lower_limit_and_small_variance_is_not_negative():
    for impl in ("perc", "meanstd"):
        norm, state = create(impl=impl, limit=0.25)
        _, (_, scale) = nj.pure(norm)(state, jnp.full(7, 1000.1), modify=True)
        assert scale == 0.25


def test_no_gradient_flows_through_the_statistics():
    norm, state = create(**CASES["meanstd"])

    def objective(x):
        _, (offset, scale) = nj.pure(norm)(state, x, modify=True)
        return (offset + scale).sum()

    np.testing.assert_array_equal(jax.grad(objective)(jnp.arange(4.0)), 0)


def test_unknown_kind_is_refused():
    with pytest.raises(ValueError, match=r"impl='off'.*expected one of none, perc, meanstd"):
        Normalize(impl="off", name="norm")


@pytest.mark.parametrize("size", [1, 2, 5, 20, 1000, 15360])
@pytest.mark.parametrize("kind", ["normal", "ties", "constant", "wide"])
def test_percentiles_are_those_of_numpy(size, kind):
    rng = np.random.default_rng(size)
    x = {
        "normal": lambda: rng.normal(size=size),
        "ties": lambda: rng.integers(-2, 3, size),
        "constant": lambda: np.full(size, -0.0),
        "wide": lambda: rng.normal(size=size) * 10.0 ** rng.integers(-40, 30, size),
    }[kind]().astype(np.float32)
    qs = [0, 5, 50, 62.5, 95, 100]
    expected = np.percentile(x.astype(np.float64), qs)
    shaped = x.reshape((2, -1)) if size % 2 == 0 else x
    np.testing.assert_allclose(jax.jit(lambda x: percentiles(x, qs))(shaped), expected, 1e-5, 1e-37)


def test_order_statistics_sort_infinities_and_signed_zeros():
    x = np.float32([3, -np.inf, -0.0, 0.0, np.inf, -5, 1e-45])
    np.testing.assert_array_equal(order_statistics(jnp.asarray(x), range(7)), np.sort(x))


def test_percentiles_do_not_hide_what_is_not_a_number():
    assert np.isnan(percentiles(jnp.array([1.0, np.nan, 2.0]), (5, 95))).all()
