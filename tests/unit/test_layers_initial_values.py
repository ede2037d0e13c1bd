"""Initial values: standard deviations, bounds, fans, names."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.jax import layers as nn
from embodied.jax import nj

SHAPES = {
    (400, 300): (400, 300),
    (8, 50, 60): (400, 480),
    (5, 5, 16, 24): (400, 600),
    (7,): (1, 7),
    (): (1, 1),
    (3, 0): (3, 1),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_fans(shape):
    assert nn.compute_fans(shape) == SHAPES[shape]


@pytest.mark.parametrize("shape", [(400, 300), (8, 50, 60), (5, 5, 16, 24)])
def test_standard_deviation_is_inverse_root_of_fan(shape):
    fan_in, fan_out = SHAPES[shape]
    sizes = {"in": fan_in, "out": fan_out, "avg": (fan_in + fan_out) / 2, "none": 1}
    pairs = list(itertools.product(["trunc_normal", "normal", "uniform"], sizes))

    @jax.jit
    def draw(key):
        return {pair: nn.Initializer(*pair).sample(key, shape) for pair in pairs}

    for (dist, fan), x in draw(jax.random.PRNGKey(0)).items():
        expected = 1 / np.sqrt(sizes[fan])
        assert x.dtype == np.float32
        assert abs(np.std(x) / expected - 1) < 0.03, (dist, fan)
        assert abs(np.mean(x)) < 0.03 * expected, (dist, fan)


def test_truncation_is_at_two_sigmas_before_the_correction():
    x = np.asarray(nn.Initializer("trunc_normal", "none").sample(jax.random.PRNGKey(1), (300, 300)))
    assert 2 * 1.1368 * 0.99 < np.abs(x).max() <= 2 * 1.1368 + 1e-6
    bounded = np.asarray(nn.Initializer("uniform", "none").sample(jax.random.PRNGKey(1), (10**4,)))
    assert np.abs(bounded).max() <= np.sqrt(3) + 1e-6


def test_scale_and_dtype():
    key = jax.random.PRNGKey(0)
    one = nn.Initializer().sample(key, (6, 4))
    np.testing.assert_allclose(nn.Initializer(scale=0.5).sample(key, (6, 4)), 0.5 * one, rtol=1e-6)
    assert nn.Initializer().sample(key, 3, jnp.bfloat16).dtype == jnp.bfloat16


def test_names():
    assert nn.init("trunc_normal_in") == nn.Initializer("trunc_normal", "in", 1.0)
    assert nn.init("trunc_normal") == nn.Initializer("trunc_normal", "in", 1.0)
    assert nn.init("normal_out") == nn.Initializer("normal", "out")
    assert nn.init("uniform_avg") == nn.Initializer("uniform", "avg")
    assert nn.init(jnp.ones) is jnp.ones
    assert (nn.init("zeros")((2, 3)) == jnp.zeros((2, 3))).all()
    assert (nn.init("ones")((2, 3)) == jnp.ones((2, 3))).all()


def test_unknown_names_are_errors():
    with pytest.raises(ValueError, match="Did you mean 'trunc_normal'"):
        nn.init("trunk_normal_in")
    with pytest.raises(ValueError, match="fan 'both'"):
        nn.Initializer("normal", "both")


def test_kernels_differ_between_layers_and_seeds():
    def fn(x):
        return nn.Linear(8, name="b")(nn.Linear(8, name="a")(x))

    x = jnp.ones((1, 8))
    init = jax.jit(lambda seed: nj.init(fn)({}, x, seed=seed))
    keys = [np.array([0, seed], np.uint32) for seed in (0, 0, 1)]
    first, again, other = (init(key) for key in keys)
    assert (first["a/kernel"] == again["a/kernel"]).all()
    assert not np.allclose(first["a/kernel"], first["b/kernel"])
    assert not np.allclose(first["a/kernel"], other["a/kernel"])
    assert (first["a/bias"] == 0).all()


@pytest.mark.parametrize("outscale", [0.0, 0.01])
def test_outscale_scales_the_kernel_and_not_the_bias(outscale):
    def fn(x, scale):
        return nn.Linear(8, outscale=scale, binit="ones", name="a")(x)

    init = jax.jit(lambda scale: nj.init(fn)({}, jnp.ones((1, 8)), scale, seed=0))
    plain, scaled = init(1.0), init(outscale)
    np.testing.assert_allclose(scaled["a/kernel"], outscale * plain["a/kernel"], rtol=1e-6)
    assert (scaled["a/bias"] == 1).all()


def test_block_kernels_start_with_the_fan_of_the_whole_input():
    layer = nn.BlockLinear(512, 8, name="a")
    init = jax.jit(lambda: nj.init(lambda x: layer(x))({}, jnp.ones((1, 1024)), seed=0))
    kernel = np.asarray(init()["a/kernel"])
    assert kernel.shape == (8, 128, 64)
    assert abs(kernel.std() * np.sqrt(1024) - 1) < 0.02
