"""Dictionary encoders beyond the recording: classes, offsets, availability, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.core.space import Space
from embodied.jax import layers as nn
from embodied.jax import nj


def test_unequal_classes_take_the_largest():
    concat = nn.DictConcat({"a": Space(np.int32, (2,), 0, [2, 4])})
    y = concat({"a": np.array([[1, 3]])})
    np.testing.assert_array_equal(y, [[0, 1, 0, 0, 0, 0, 0, 1]])


def test_bools_and_unsigned_integers():
    spaces = {"a": Space(bool), "b": Space(np.uint8, (), 0, 3)}
    y = nn.DictConcat(spaces)({"b": np.array([2, 0], np.uint8), "a": np.array([True, False])})
    np.testing.assert_array_equal(y, [[0, 1, 0, 0, 1], [1, 0, 1, 0, 0]])


def test_classes_may_start_at_another_number():
    concat = nn.DictConcat({"a": Space(np.int32, (2,), [5, 7], [8, 9])})
    np.testing.assert_array_equal(concat({"a": np.array([[5, 8]])}), [[1, 0, 0, 0, 1, 0]])
    negative = nn.DictConcat({"a": Space(np.int32, (2,), -1, 2)})
    np.testing.assert_array_equal(negative({"a": np.array([[-1, 1]])}), [[1, 0, 0, 0, 0, 1]])


def test_one_unavailable_element_blanks_the_key_of_that_sample_only():
    spaces = {"a": Space(np.float32, (2,), -np.inf), "b": Space(np.int32, (2,), 0, 2)}
    xs = {
        "a": np.array([[1, 2], [-np.inf, 2]], np.float32),
        "b": np.array([[0, -1], [0, 1]], np.int32),
    }
    y = nn.DictConcat(spaces)(xs)
    np.testing.assert_array_equal(y, [[1, 2, 0, 0, 0, 0], [0, 0, 1, 0, 0, 1]])


def test_gradients_stay_finite_where_inputs_are_unavailable():
    concat = nn.DictConcat({"a": Space(np.float32, (2,), -np.inf)}, squish=nn.symlog)
    grads = jax.grad(lambda x: concat({"a": x}).sum())(jnp.array([[1.0, -jnp.inf], [1.0, 0.0]]))
    np.testing.assert_allclose(grads, [[0, 0], [0.5, 0]])


def test_squish_sees_float32_before_the_compute_dtype():
    seen = []

    def squish(x):
        seen.append(x.dtype)
        return x

    space = {"a": Space(jnp.bfloat16, (2,))}
    y = nn.DictConcat(space, 1, squish, "bfloat16")({"a": jnp.ones((1, 2), jnp.bfloat16)})
    assert seen == [jnp.float32] and y.dtype == jnp.bfloat16


def test_integers_as_numbers_for_the_paper_era_recipe():
    spaces = {"a": Space(np.int32, (2,))}
    y = nn.DictConcat(spaces, 1, nn.symlog, onehot=False)({"a": np.array([[-1, 3]])})
    np.testing.assert_allclose(y, [[-np.log(2), np.log(4)]], rtol=1e-6)


def test_several_feature_dims():
    spaces = {"a": Space(np.float32, (2, 3)), "b": Space(np.float32, (2, 1))}
    xs = {"a": np.ones((5, 7, 2, 3), np.float32), "b": np.zeros((5, 7, 2, 1), np.float32)}
    assert nn.DictConcat(spaces, fdims=2)(xs).shape == (5, 7, 2, 4)
    assert nn.DictConcat(spaces, fdims=1)(xs).shape == (5, 7, 8)
    assert nn.DictConcat({"a": Space(np.float32)})({"a": np.float32(3)}).shape == (1,)


def test_errors_name_the_key():
    spaces = {"a": Space(np.float32, (2,)), "b": Space(np.float32)}
    concat = nn.DictConcat(spaces)
    with pytest.raises(KeyError, match="expected 'b'"):
        concat({"a": np.zeros((1, 2))})
    with pytest.raises(ValueError, match="'a', expected \\(1, 2\\)"):
        concat({"a": np.zeros((1, 3)), "b": np.zeros(1)})
    with pytest.raises(ValueError, match="'b', expected \\(4,\\)"):
        concat({"a": np.zeros((4, 2)), "b": np.zeros(3)})
    with pytest.raises(ValueError, match="0 spaces"):
        nn.DictConcat({})
    with pytest.raises(ValueError, match="classes for the discrete input 'a'"):
        nn.DictConcat({"a": Space(np.int32)})


@pytest.mark.parametrize("impl", ["onehot", "lookup"])
def test_dict_embed_offsets_and_missing_keys(impl):
    spaces = {"a": Space(np.int32, (2,), 3, [5, 6]), "b": Space(np.float32, (2, 2))}
    embed = nn.DictEmbed(spaces, 4, impl=impl, squish=nn.symlog, name="m")
    fn = lambda xs: embed(xs)  # noqa: E731
    xs = {"a": jnp.array([[3, 5], [4, 3]]), "b": jnp.full((2, 2, 2), -jnp.inf)}
    state = jax.jit(lambda xs: nj.init(fn)({}, xs, seed=0))(xs)
    y = jax.jit(nj.pure(fn))(state, xs)[1]
    first, second = (
        state["m/a/table"] if impl == "lookup" else state["m/a/kernel"].reshape((2, 3, 4))
    )
    np.testing.assert_allclose(y[0], state["m/init"] + first[0] + second[2], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(y[1], state["m/init"] + first[1] + second[0], rtol=1e-5, atol=1e-6)
