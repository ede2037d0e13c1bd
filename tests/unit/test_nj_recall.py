"""Known results with the gradient of computing them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.jax import nj

XS, WEIGHTS = (
    np.random.default_rng(seed).normal(size=(5, 3, 2)).astype(np.float32) for seed in (0, 1)
)
WEIGHTS = WEIGHTS[..., 0]


class Layer(nj.Module):
    def __call__(self, x):
        return jnp.tanh(x @ self.value("kernel", jnp.ones, (2, 4)))


first, second = Layer(name="first"), Layer(name="second")


def rows(xs):
    """A value per row, of two modules."""
    return {"out": (first(xs) * second(xs)).sum(-1)}


def recalled(xs, steps):
    known = jax.lax.stop_gradient(rows(xs))
    return nj.recall(rows, [first], xs, known, steps=steps)["out"]


def gradients(fn, keys):
    """Loss, gradient of the parameters below `keys` and of the inputs, weighted per row."""
    state = nj.init(rows)({}, XS)

    def loss(xs):
        return (jnp.square(fn(xs)) * WEIGHTS).sum()

    run = nj.pure(lambda xs: nj.grad(loss, keys)(xs))
    value, _, grads = jax.jit(lambda state: run(state, XS)[1])(state)
    return value, grads, jax.grad(lambda xs: nj.pure(loss)(state, xs)[1])(XS)


@pytest.mark.parametrize("steps", [True, False])
def test_values_and_gradients_are_those_of_a_call(steps):
    loss, grads, by_input = gradients(lambda xs: recalled(xs, steps), [first])
    expected, expected_grads, expected_by_input = gradients(lambda xs: rows(xs)["out"], [first])
    assert np.isclose(loss, expected)
    assert np.allclose(grads["first/kernel"], expected_grads["first/kernel"], rtol=1e-5)
    assert np.allclose(by_input, expected_by_input, rtol=1e-5)
    assert np.abs(grads["first/kernel"]).min() > 0


def test_other_state_is_constant():
    assert not gradients(lambda xs: recalled(xs, True), [second])[1]["second/kernel"].any()


def test_writing_state_is_refused():
    def write(xs):
        count = nj.Variable(jnp.zeros, (), name="count")
        return first(xs).sum(-1) + count.write(count.read() + 1)

    run = lambda xs: nj.recall(write, [first], xs, xs[..., 0], steps=True).sum()  # noqa: E731
    state = nj.init(run)({}, XS)
    with pytest.raises(RuntimeError, match=r"count/value"):
        nj.pure(lambda: nj.grad(lambda: run(XS), [first])())(state, modify=True)


def test_missing_module_is_named():
    state = nj.init(rows)({}, XS)
    with pytest.raises(ValueError, match="third"):
        nj.pure(lambda xs: nj.recall(rows, ["third"], xs, rows(xs), steps=True))(state, XS)
