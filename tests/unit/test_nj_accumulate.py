"""Sums whose gradient is computed together with their value."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.jax import nj

XS = np.random.default_rng(0).normal(size=(5, 3, 2)).astype(np.float32)


class Layer(nj.Module):
    def __call__(self, x):
        return jnp.tanh(x @ self.value("kernel", jnp.ones, (2, 4)))


first, second = Layer(name="first"), Layer(name="second")


def step(x):
    """A loss that reads two modules, with an output per row."""
    rows = (first(x) * second(x)).sum(-1)
    return jnp.square(rows).sum(), rows


def summed(xs):
    return nj.accumulate(step, [first], xs)


def scanned(xs):
    losses, rows = nj.scan(lambda _, x: (None, step(x)), None, xs)[1]
    return losses.sum(), rows


def gradients(fn, xs, keys):
    run = nj.pure(lambda xs: nj.grad(lambda: fn(xs), keys, has_aux=True)())
    state = nj.init(summed)({}, xs)
    return jax.jit(lambda state, xs: run(state, xs)[1])(state, xs)


def test_value_gradient_and_outputs_are_those_of_a_scan():
    loss, _, grads, rows = gradients(summed, XS, [first])
    expected, _, expected_grads, expected_rows = gradients(scanned, XS, [first])
    assert np.isclose(loss, expected)
    assert np.allclose(rows, expected_rows)
    assert np.allclose(grads["first/kernel"], expected_grads["first/kernel"], rtol=1e-5)
    assert np.abs(grads["first/kernel"]).min() > 0


def test_the_gradient_is_scaled_by_what_the_sum_is_multiplied_with():
    once = gradients(summed, XS, [first])[2]
    thrice = gradients(lambda xs: (3 * summed(xs)[0], None), XS, [first])[2]
    assert np.allclose(thrice["first/kernel"], 3 * once["first/kernel"])


def test_other_state_inputs_and_outputs_carry_no_gradient():
    assert not gradients(summed, XS, [second])[2]["second/kernel"].any()
    rows = gradients(lambda xs: (summed(xs)[1].sum(), None), XS, [first])[2]
    assert not rows["first/kernel"].any()
    state = nj.init(summed)({}, XS)
    by_inputs = jax.grad(lambda xs: nj.pure(summed)(state, xs)[1][0])(XS)
    assert not by_inputs.any()


def test_every_slice_draws_another_number():
    draw = lambda x: (jnp.float32(0), jax.random.uniform(nj.seed()))  # noqa: E731
    run = nj.pure(lambda xs: (first(xs), nj.accumulate(draw, [first], xs)[1])[1])
    state = nj.init(first)({}, XS)
    drawn = run(state, XS, seed=0)[1]
    assert len(set(drawn.tolist())) == 5
    assert np.array_equal(drawn, run(state, XS, seed=0)[1])


def test_writing_state_is_refused():
    def write(x):
        count = nj.Variable(jnp.zeros, (), name="count")
        return count.write(count.read() + x.sum()), None

    run = lambda xs: (first(xs), nj.accumulate(write, [first], xs))  # noqa: E731
    state = nj.init(run)({}, XS)
    with pytest.raises(RuntimeError, match=r"count/value"):
        nj.pure(run)(state, XS, modify=True)


def test_missing_module_is_named():
    state = nj.init(summed)({}, XS)
    with pytest.raises(ValueError, match="third"):
        nj.pure(lambda xs: nj.accumulate(step, ["third"], xs))(state, XS)
