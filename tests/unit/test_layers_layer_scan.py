"""A scan over layers is the same as a loop over them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.jax import layers as nn
from embodied.jax import nj


class Residual(nn.Layer):
    shared: bool = False

    def __init__(self, units, other=None):
        self.units = units
        self.other = other

    def __call__(self, x, scale):
        y = self.other(x) if self.other else x
        return x + scale * self.sub("mlp", nn.MLP, 1, self.units)(y)


class Loop(nj.Module):
    def __init__(self, count, *args):
        self.count = count
        self.args = args

    def __call__(self, x, scale):
        for i in range(self.count):
            x = self.sub(f"layer{i}", Residual, *self.args)(x, scale)
        return x


def create(fn, *args, state=(), seed=0):
    return jax.jit(lambda state, args: nj.init(fn)(state, *args, seed=seed))(dict(state), args)


def unstack(state, count):
    result = {k: v for k, v in state.items() if not k.startswith("m/layer/")}
    for key, value in state.items():
        if key.startswith("m/layer/"):
            for i in range(count):
                result[key.replace("m/layer/", f"m/layer{i}/")] = value[i]
    return result


@pytest.mark.parametrize("unroll", [1, 2])
def test_values_and_gradients_equal_those_of_a_loop(unroll):
    x, scale = jnp.asarray(np.random.default_rng(0).normal(size=(2, 4)), jnp.float32), 0.5
    scanned = nn.LayerScan(Residual, 3, 4, unroll=unroll, name="m")
    looped = Loop(3, 4, name="m")
    state = create(lambda x: scanned(x, scale), x)
    assert state["m/layer/mlp/linear0/kernel"].shape == (3, 4, 4)

    def loss(state, layer):
        y = nj.pure(lambda x: layer(x, scale))(state, x)[1]
        return jnp.square(y).sum(), y

    separate = unstack(state, 3)
    grads, y = jax.jit(jax.grad(lambda p: loss(p, scanned), has_aux=True))(state)
    expected_grads, expected = jax.jit(jax.grad(lambda p: loss(p, looped), has_aux=True))(separate)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
    for key, grad in unstack(grads, 3).items():
        np.testing.assert_allclose(grad, expected_grads[key], rtol=1e-4, atol=1e-5)


def test_layers_are_initialised_like_single_ones():
    layer = nn.LayerScan(nn.Linear, 4, 256, name="m")
    state = create(lambda x: layer(x), jnp.ones((1, 256)))
    kernel = np.asarray(state["m/layer/kernel"])
    np.testing.assert_allclose(kernel.std((1, 2)), 1 / 16, rtol=0.03)
    assert not np.allclose(kernel[0], kernel[1])
    again = create(lambda x: layer(x), jnp.ones((1, 256)), state=state, seed=1)
    np.testing.assert_array_equal(again["m/layer/kernel"], kernel)


def test_inside_grad_scan_and_jit_with_an_outer_module():
    outer = nn.Linear(4, name="outer")
    layer = nn.LayerScan(Residual, 2, 4, outer, name="m")

    def rollout(x):
        step = lambda carry, _: (layer(carry, 0.1), carry)  # noqa: E731
        last, _ = nj.scan(step, x, jnp.arange(3))
        return jnp.square(last).mean()

    def train(x):
        return nj.grad(rollout, [layer, outer])(x)

    x = jnp.ones((2, 4))
    state = create(train, x)
    assert set(state) == {
        "outer/kernel", "outer/bias", "m/layer/mlp/linear0/kernel", "m/layer/mlp/linear0/bias",
        "m/layer/mlp/norm0/scale",
    }  # fmt: skip
    _, (loss, params, grads) = jax.jit(nj.pure(train))(state, x)
    assert set(params) == set(state) and np.isfinite(loss)
    assert all(np.abs(grad).max() > 0 for grad in grads.values())


def test_random_keys_differ_between_layers():
    class Add(nj.Module):
        def __call__(self, tree):
            total, draws = tree
            self.value("bias", jnp.zeros, ())
            draw = jax.random.uniform(nj.seed(), ())
            return total + 1, draws.at[total].set(draw)

    layer = nn.LayerScan(Add, 4, name="m")
    tree = (jnp.int32(0), jnp.zeros(4))
    state = create(lambda tree: layer(tree), tree)
    run = jax.jit(lambda tree: nj.pure(lambda tree: layer(tree))(state, tree, seed=0))
    _, (total, draws) = run(tree)
    assert total == 4 and len(set(np.asarray(draws).tolist())) == 4


def test_wrong_counts_are_errors():
    with pytest.raises(ValueError, match="0 layers, expected at least one"):
        nn.LayerScan(nn.Linear, 0, 4, name="m")
    x = jnp.ones((1, 4))
    state = create(lambda x: nn.LayerScan(nn.Linear, 2, 4, name="m")(x), x)
    with pytest.raises(ValueError, match="has 3 layers"):
        nj.pure(lambda x: nn.LayerScan(nn.Linear, 3, 4, name="m")(x))(state, x)
