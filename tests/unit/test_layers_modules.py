"""Layers beyond the recordings: dtypes, layouts, sequences, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.core.space import Space
from embodied.jax import layers as nn
from embodied.jax import nj

RNG = np.random.default_rng(0)


def normal(*shape):
    return jax.device_put(RNG.normal(0.0, 0.7, size=shape).astype(np.float32))


def run(layer, *args, state=None, **kwargs):
    """Run a layer; unless given, its parameters are made up. Returns them and the output."""
    fn = lambda *args: layer(*args, **kwargs)  # noqa: E731
    if state is None:
        shapes = jax.eval_shape(lambda: nj.init(fn)({}, *args, seed=0))
        state = {key: normal(*value.shape) for key, value in shapes.items()}
        assert {value.dtype for value in shapes.values()} <= {jnp.dtype("float32")}
    return state, jax.jit(nj.pure(fn))(state, *args)[1]


CASES = {
    "linear": (nn.Linear(6, name="m"), (3, 8)),
    "block": (nn.BlockLinear(6, 2, name="m"), (3, 8)),
    "rms": (nn.Norm("rms", name="m"), (3, 8)),
    "layer": (nn.Norm("layer", name="m"), (3, 8)),
    "mlp": (nn.MLP(2, 6, name="m"), (3, 8)),
    "conv2d": (nn.Conv2D(4, 3, 2, name="m"), (1, 4, 4, 2)),
    "conv2d_transposed": (nn.Conv2D(4, 3, 2, transp=True, name="m"), (1, 4, 4, 2)),
    "conv3d": (nn.Conv3D(4, 3, name="m"), (1, 2, 4, 4, 2)),
    "attention": (nn.Attention(heads=2, kv_heads=1, qknorm="rms", name="m"), (1, 3, 8)),
    "transformer": (nn.Transformer(units=8, layers=1, heads=2, name="m"), (1, 3, 8)),
}


@pytest.mark.parametrize("name", CASES)
def test_activations_are_bfloat16_and_parameters_float32(name):
    layer, shape = CASES[name]
    x = normal(*shape)
    state, y = run(layer, x)
    _, low = run(layer, x.astype(jnp.bfloat16), state=state)
    assert y.dtype == jnp.float32 and low.dtype == jnp.bfloat16 and low.shape == y.shape
    np.testing.assert_allclose(low.astype(jnp.float32), y, atol=0.1 * np.abs(y).max())


def test_parameters_are_float32_whatever_the_input():
    x = normal(3, 8).astype(jnp.bfloat16)
    state = jax.jit(lambda x: nj.init(lambda x: CASES["linear"][0](x))({}, x, seed=0))(x)
    assert {value.dtype for value in state.values()} == {jnp.dtype("float32")}
    kernel = state["m/kernel"]
    assert (kernel != kernel.astype(jnp.bfloat16).astype(jnp.float32)).any()


@pytest.mark.parametrize("name", CASES)
def test_integer_inputs_are_rejected(name):
    layer, shape = CASES[name]
    with pytest.raises(TypeError, match="expected floating point"):
        run(layer, np.ones(shape, np.int32))


def test_entry_points_cast_to_their_dtype():
    spaces = {"a": Space(np.float32, (2,)), "b": Space(np.int32, (), 0, 3)}
    xs = {"a": normal(4, 2), "b": jnp.array([0, 1, 2, 0])}
    assert nn.DictConcat(spaces, dtype="bfloat16")(xs).dtype == jnp.bfloat16
    for impl in ("onehot", "lookup"):
        _, y = run(nn.DictEmbed(spaces, 3, impl=impl, dtype="bfloat16", name="m"), xs)
        assert y.dtype == jnp.bfloat16
    assert run(nn.Embed(3, 2, dtype="bfloat16", name="m"), xs["b"])[1].dtype == jnp.bfloat16
    assert run(nn.MLP(1, 3, dtype="bfloat16", name="m"), xs["a"])[1].dtype == jnp.bfloat16


def test_norm_statistics_in_float32_or_compute_dtype():
    x = (100 * normal(4, 64)).astype(jnp.bfloat16)
    precise = nn.standardize(x.astype(jnp.float32), -1).astype(jnp.bfloat16)
    state = {"m/scale": jnp.ones(64)}
    _, y = run(nn.Norm("rms", name="m"), x, state=state)
    np.testing.assert_array_equal(y, precise)
    _, rough = run(nn.Norm("rms", stats="compute", name="m"), x, state=state)
    assert rough.dtype == jnp.bfloat16 and (rough != precise).any()
    np.testing.assert_allclose(rough.astype(jnp.float32), precise.astype(jnp.float32), rtol=0.05)
    half = jnp.full((1, 8), 300.0, jnp.float16)  # The square overflows in float16.
    _, y = run(nn.Norm("rms", stats="compute", name="m"), half, state={"m/scale": jnp.ones(8)})
    np.testing.assert_allclose(y.astype(jnp.float32), 1.0, rtol=1e-3)


def test_norm_none_has_no_parameters():
    x = normal(2, 3)
    state, y = run(nn.Norm("none", name="m"), x)
    assert not state and (y == x).all()


def test_norm_over_several_axes():
    x = normal(2, 3, 4)
    state, y = run(nn.Norm("rms", axis=(-2, -1), name="m"), x)
    assert state["m/scale"].shape == (3, 4)
    expected = x / np.sqrt(np.square(x).mean((1, 2), keepdims=True) + 1e-4) * state["m/scale"]
    np.testing.assert_allclose(y, expected, rtol=1e-5)


def test_block_linear_matches_a_block_diagonal_matrix():
    x = normal(2, 5, 8)
    state, y = run(nn.BlockLinear(12, 4, name="m"), x)
    dense = jax.scipy.linalg.block_diag(*state["m/kernel"])
    np.testing.assert_allclose(y, x @ dense + state["m/bias"], rtol=1e-5, atol=1e-5)


def test_block_major_layout_gives_the_same_numbers():
    linear, norm = nn.BlockLinear(12, 4, name="m"), nn.Norm("rms", name="n")

    def flat(x):
        return norm(linear(x))

    def blocks(x):
        x = nn.to_block_major(x, 4)
        return nn.from_block_major(norm.block_major(linear.block_major(x)))

    x = normal(5, 8)
    state, expected = run(flat, x)
    shapes = jax.eval_shape(lambda: nj.init(blocks)({}, x, seed=0))
    assert {k: v.shape for k, v in shapes.items()} == {k: v.shape for k, v in state.items()}
    _, actual = run(blocks, x, state=state)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def test_no_bias():
    for layer, shape in [(nn.Linear(2, bias=False, name="m"), (1, 3)),
                         (nn.BlockLinear(2, 2, bias=False, name="m"), (1, 4)),
                         (nn.Conv2D(2, 3, bias=False, name="m"), (1, 4, 4, 1))]:  # fmt: skip
        assert set(run(layer, normal(*shape))[0]) == {"m/kernel"}


def test_mlp_options():
    x = normal(3, 4)
    state, y = run(nn.MLP(1, 5, act="tanh", norm="layer", name="m"), x)
    hidden = x @ state["m/linear0/kernel"] + state["m/linear0/bias"]
    hidden = nn.standardize(hidden, -1, center=True)
    expected = np.tanh(hidden * state["m/norm0/scale"] + state["m/norm0/shift"])
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
    assert (run(nn.MLP(0, 5, name="m"), x)[1] == x).all()


@pytest.mark.parametrize("kernel, pad", [(1, "same"), (4, "same"), (5, "same"), (3, "valid")])
def test_transposed_convolution_repeats_and_zeroes(kernel, pad):
    # Repeat, keep the indices i with (i - 1) % 2 == 0, convolve with stride 1.
    x = normal(1, 3, 5, 2)
    repeated = np.asarray(x).repeat(2, 1).repeat(2, 2)
    rows, cols = (np.arange(n) % 2 == 1 for n in repeated.shape[1:3])
    repeated = jnp.asarray(repeated * (rows[:, None] & cols)[None, :, :, None])
    state, y = run(nn.Conv2D(4, kernel, 2, transp=True, pad=pad, name="m"), x)
    _, expected = run(nn.Conv2D(4, kernel, pad=pad, name="m"), repeated, state=state)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def test_grouped_convolution_keeps_groups_apart():
    x = normal(1, 4, 4, 4)
    state, y = run(nn.Conv2D(6, 3, groups=2, name="m"), x)
    assert state["m/kernel"].shape == (3, 3, 2, 6)
    _, changed = run(nn.Conv2D(6, 3, groups=2, name="m"), x.at[..., 3].add(1.0), state=state)
    assert (changed[..., :3] == y[..., :3]).all() and (changed[..., 3:] != y[..., 3:]).any()


def test_gru_sequence_is_repeated_steps_with_resets():
    gru = nn.GRU(4, name="m")
    inputs, carry = normal(2, 5, 3), normal(2, 4)
    resets = jnp.zeros((2, 5), bool).at[0, 2].set(True)
    state, (last, ys) = run(gru, carry, inputs, resets)
    steps = []
    for t in range(5):
        _, (carry, y) = run(gru, carry, inputs[:, t], resets[:, t], state=state, single=True)
        steps.append(y)
    np.testing.assert_allclose(ys, jnp.stack(steps, 1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(last, ys[:, -1])
    _, (_, fresh) = run(gru, gru.initial(2), inputs[:, 2:], resets[:, 2:], state=state)
    np.testing.assert_allclose(fresh[0], ys[0, 2:], rtol=1e-5, atol=1e-6)
    assert not np.allclose(fresh[1], ys[1, 2:], atol=1e-3)


def test_embed_without_combining():
    ids = jnp.array([[0, 1], [2, 2]])
    state, y = run(nn.Embed(3, 4, 2, name="m"), ids)
    table = state["m/table"]
    assert table.shape == (2, 3, 4) and y.shape == (2, 2, 4)
    np.testing.assert_array_equal(y[1, 1], table[1, 2])
    assert run(nn.Embed(3, 4, name="m"), ids)[1].shape == (2, 2, 4)


def test_attention_masks_and_relative_positions():
    x, attention = normal(1, 4, 8), nn.Attention(heads=2, name="m")
    causal = jnp.tril(jnp.ones((4, 4), bool))[None]
    state, y = run(attention, x, causal)
    _, changed = run(attention, x.at[:, 2:].add(1.0), causal, state=state)
    np.testing.assert_allclose(changed[:, :2], y[:, :2], atol=1e-6)
    assert not np.allclose(changed[:, 2:], y[:, 2:], atol=1e-3)
    _, shifted = run(attention, x, causal, 7 + jnp.arange(4)[None], state=state)
    np.testing.assert_allclose(shifted, y, rtol=1e-4, atol=1e-5)
    _, full = run(attention, x, state=state)
    np.testing.assert_allclose(full[:, 3], y[:, 3], atol=1e-6)


def test_gated_transformer_width_is_a_multiple_of_32():
    layer = nn.Transformer(units=64, layers=1, heads=2, glu=True, name="m")
    state = jax.eval_shape(lambda: nj.init(lambda x: layer(x))({}, normal(1, 2, 64), seed=0))
    assert state["m/layer0/ff1/kernel"].shape == (64, 160)  # 64 * 4 * 2 / 3 = 170.7
    assert state["m/layer0/ff3/kernel"].shape == (160, 64)


ERRORS = {
    "block units": (lambda x: nn.BlockLinear(5, 2, name="m")(x), (1, 4), "5 units.*multiple"),
    "block input": (lambda x: nn.BlockLinear(4, 2, name="m")(x), (1, 5), "5 features.*multiple"),
    "norm": (lambda x: nn.Norm("batch", name="m")(x), (1, 4), "'batch'.*rms, layer, none"),
    "stats": (lambda x: nn.Norm("rms", stats="half", name="m")(x), (1, 4), "float32, compute"),
    "act": (lambda x: nn.MLP(1, 2, act="sulu", name="m")(x), (1, 4), "'sulu'.*'silu'"),
    "rank": (lambda x: nn.Conv2D(2, 3, name="m")(x), (1, 4, 4), r"\[N, H, W, C\]"),
    "rank3": (lambda x: nn.Conv3D(2, 3, name="m")(x), (1, 4, 4, 3), r"\[N, T, H, W, C\]"),
    "stride": (lambda x: nn.Conv3D(2, 3, (1, 2), name="m")(x), (1, 2, 4, 4, 3), "stride.*or 3"),
    "pad": (lambda x: nn.Conv2D(2, 3, pad="wrap", name="m")(x), (1, 4, 4, 3), "'wrap'"),
    "groups": (lambda x: nn.Conv2D(3, 3, groups=2, name="m")(x), (1, 4, 4, 4), "2 groups"),
    "heads": (lambda x: nn.Attention(heads=3, name="m")(x), (1, 2, 8), "multiple of its 3 heads"),
    "kv": (lambda x: nn.Attention(heads=4, kv_heads=3, name="m")(x), (1, 2, 8), "divisor of 4"),
    "odd head": (lambda x: nn.Attention(heads=2, name="m")(x), (1, 2, 6), "even number"),
    "mask": (lambda x: nn.Attention(heads=2, name="m")(x, x[0] > 0), (1, 2, 8), "mask of shape"),
    "ts": (lambda x: nn.Attention(heads=2, name="m")(x, None, x[0]), (1, 2, 8), "positions"),
    "units": (lambda x: nn.Transformer(units=4, name="m")(x), (1, 2, 8), "8 features.*4 units"),
    "gru": (lambda x: nn.GRU(3, name="m")(x, x, x > 0), (2, 4), "GRU 'm' got carry"),
    "impl": (lambda x: nn.DictEmbed({}, 2, name="m")({}), (1,), "expected some spaces"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_wrong_use_is_explained(name):
    fn, shape, message = ERRORS[name]
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(lambda x: nj.init(fn)({}, x, seed=0), normal(*shape))


def test_another_input_size_names_the_layer_and_both_shapes():
    layer = nn.MLP(1, 2, name="net")
    state, _ = run(layer, normal(1, 4))
    with pytest.raises(ValueError, match=r"'net/linear0'.*\(5, 2\).*\(4, 2\)"):
        run(layer, normal(1, 5), state=state)


def test_embed_rejects_floats_and_shapes():
    with pytest.raises(TypeError, match="expected integers"):
        run(nn.Embed(3, 4, name="m"), normal(2))
    with pytest.raises(ValueError, match=r"ends in \(2,\)"):
        run(nn.Embed(3, 4, (2,), name="m"), jnp.zeros((2, 3), jnp.int32))


def test_linear_without_inputs_is_its_bias():
    _, y = nj.pure(lambda: nn.Linear(3, name="linear")(jnp.zeros((2, 4, 0))))(
        {}, seed=0, create=True
    )
    assert y.shape == (2, 4, 3) and not y.any()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.slow
def test_linear_and_mlp_take_a_known_first_result(bias):
    x = normal(2, 5, 3)

    def losses(x):
        mlp = nj.make("mlp", nn.MLP, 2, 4, bias=bias)
        first = mlp.first(x)
        assert first.shape == (2, 5, 4)
        return jnp.square(mlp(x)).sum(), jnp.square(mlp(x, jax.lax.stop_gradient(first))).sum()

    state = nj.init(losses)({}, x, seed=0)
    value = lambda which: lambda s: nj.pure(losses)(s, x)[1][which]  # noqa: E731
    (a, computed), (b, recalled) = (jax.value_and_grad(value(i))(state) for i in (0, 1))
    assert a == b
    assert computed.keys() == recalled.keys()
    for path, grad in computed.items():
        assert np.allclose(recalled[path], grad, rtol=1e-6), path
        assert jnp.abs(grad).max() > 0, path


def test_a_known_result_is_not_computed_again():
    def apply(x, known):
        return nj.make("linear", nn.Linear, (2, 2))(x, known)

    x, known = normal(3, 5), normal(3, 2, 2)
    state = nj.init(apply)({}, x, known, seed=0)
    assert jnp.array_equal(nj.pure(apply)(state, x, known)[1], known)
