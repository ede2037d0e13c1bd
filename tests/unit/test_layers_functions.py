"""Activations, squashing, masks and availability."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.jax import layers as nn

X = np.linspace(-4, 4, 33, dtype=np.float32)
KNOWN = {
    "none": X,
    "silu": X / (1 + np.exp(-X)),
    "relu": np.maximum(X, 0),
    "relu2": np.maximum(X, 0) ** 2,
    "tanh": np.tanh(X),
    "mish": X * np.tanh(np.log1p(np.exp(X))),
    "gelu": 0.5 * X * (1 + np.tanh(np.sqrt(2 / np.pi) * (X + 0.044715 * X**3))),
    "elu": np.where(X > 0, X, np.expm1(X)),
}


@pytest.mark.parametrize("name", KNOWN)
def test_activation_values(name):
    np.testing.assert_allclose(nn.act(name)(X), KNOWN[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [n for n in nn.ACTIVATIONS if n != "swiglu"])
def test_activations_keep_shape_and_dtype(name):
    y = jax.eval_shape(nn.act(name), jnp.ones((2, 4), jnp.bfloat16))
    assert y.shape == (2, 4) and y.dtype == jnp.bfloat16


def test_swiglu_gates_one_half_with_the_other():
    x = jnp.array([[1.0, -2.0, 3.0, 4.0]])
    expected = jax.nn.silu(x[:, :2]) * x[:, 2:]
    np.testing.assert_allclose(nn.act("swiglu")(x), expected)
    with pytest.raises(ValueError, match="3 features, expected an even number"):
        nn.act("swiglu")(x[:, :3])


def test_activation_by_function_and_unknown_name():
    assert nn.act(jnp.sin) is jnp.sin
    with pytest.raises(ValueError, match="Did you mean 'silu'"):
        nn.act("sillu")


def test_symlog_and_symexp():
    x = jnp.array([-np.e + 1, 0.0, np.e - 1, 1e6])
    np.testing.assert_allclose(nn.symlog(x)[:3], [-1, 0, 1], rtol=1e-6)
    np.testing.assert_allclose(nn.symexp(nn.symlog(x)), x, rtol=1e-5)
    assert jax.grad(nn.symlog)(0.5) == pytest.approx(1 / 1.5)
    assert nn.symlog(jnp.ones((), jnp.bfloat16)).dtype == jnp.bfloat16


def test_where_broadcasts_over_feature_dims_of_trees():
    keep = jnp.array([True, False])
    xs = {"a": jnp.ones((2, 3)), "b": jnp.ones((2,), jnp.int32)}
    ys = {"a": 5 * jnp.ones((2, 3)), "b": jnp.zeros((2,), jnp.int32)}
    out = nn.where(keep, xs, ys)
    np.testing.assert_array_equal(out["a"], [[1, 1, 1], [5, 5, 5]])
    np.testing.assert_array_equal(out["b"], [1, 0])
    assert out["b"].dtype == jnp.int32


def test_where_rejects_wrong_inputs():
    x = jnp.ones((2, 3))
    with pytest.raises(TypeError, match="int32 condition, expected bool"):
        nn.where(jnp.ones(2, jnp.int32), x, x)
    with pytest.raises(ValueError, match="not equal"):
        nn.where(jnp.ones(2, bool), x, jnp.ones((2, 4)))
    with pytest.raises(ValueError, match="leading dims"):
        nn.where(jnp.ones(3, bool), x, x)


def test_mask_zeroes_values_and_gradients():
    x = jnp.array([[1.0, 2.0], [-jnp.inf, 3.0]])
    keep = jnp.array([True, False])

    def loss(x):
        return nn.symlog(nn.mask({"x": x}, keep)["x"]).sum()

    np.testing.assert_array_equal(nn.mask(x, keep), [[1, 2], [0, 0]])
    grads = jax.grad(loss)(x)
    np.testing.assert_allclose(grads, [[1 / 2, 1 / 3], [0, 0]], rtol=1e-6)


@pytest.mark.parametrize(
    "x, expected",
    [
        (np.array([0.0, -np.inf, np.inf, -1.0], np.float32), [1, 0, 1, 1]),
        (np.array([0, -1, 2, -2], np.int32), [1, 0, 1, 1]),
        (np.array([0, 255], np.uint8), [1, 1]),
        (np.array([False, True]), [1, 1]),
        (jnp.array([0.0, -jnp.inf], jnp.bfloat16), [1, 0]),
    ],
)
def test_available_by_dtype(x, expected):
    np.testing.assert_array_equal(nn.available(x), np.array(expected, bool))


def test_available_reduces_over_feature_dims_and_combines_trees():
    x = {"k": jnp.array([[0.0, 1.0], [-jnp.inf, 1.0], [0.0, 1.0]])}
    y = {"k": jnp.array([[0, 0], [0, 0], [0, -1]])}
    np.testing.assert_array_equal(nn.available(x, bdims=1)["k"], [True, False, True])
    np.testing.assert_array_equal(nn.available(x, y, bdims=1)["k"], [True, False, False])
    np.testing.assert_array_equal(nn.available(x, y)["k"][1], [False, True])
    assert nn.available(jnp.zeros(3), bdims=1).shape == (3,)


def test_cast_leaves_integers_alone():
    out = nn.cast({"x": jnp.ones(2), "n": jnp.ones(2, jnp.int32)}, jnp.bfloat16)
    assert out["x"].dtype == jnp.bfloat16 and out["n"].dtype == jnp.int32


def test_rms_over_a_tree():
    assert nn.rms({"a": jnp.array([3.0, 3.0, 3.0]), "b": jnp.array([1.0])}) == pytest.approx(7**0.5)
    assert nn.rms({}) == 0
    assert nn.rms([jnp.full(10, 300.0, jnp.bfloat16)]).dtype == jnp.float32


def test_recall_returns_what_is_known_with_the_gradient_of_computing_it():
    x, kernel = jnp.arange(6.0).reshape((2, 3)), jnp.arange(12.0).reshape((3, 4))
    known = jnp.full((2, 4), 7.0)

    def loss(x, kernel):
        return (jnp.array([[1.0], [2.0]]) * nn.recall(jnp.matmul, known, x, kernel)).sum()

    value, (dx, dkernel) = jax.value_and_grad(loss, (0, 1))(x, kernel)
    assert value == 4 * 7 + 2 * 4 * 7
    assert jnp.array_equal(dx, jnp.array([[6.0, 22, 38], [12, 44, 76]]))
    # Row i of the gradient is x[0, i] + 2 x[1, i] in all columns.
    assert jnp.array_equal(dkernel, jnp.array([[6.0], [9], [12]]) * jnp.ones(4))


def test_recall_has_no_gradient_for_what_is_known():
    loss = lambda known: nn.recall(jnp.sin, known, jnp.ones(3)).sum()  # noqa: E731
    assert not jax.grad(loss)(jnp.zeros(3)).any()
