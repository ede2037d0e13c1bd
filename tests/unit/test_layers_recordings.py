"""Layers against the recordings: outputs, gradients to inputs and to parameters."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle_helpers import ORACLE, assert_close, group, load

from embodied.core.space import Space
from embodied.jax import layers as nn
from embodied.jax import nj

OPTIONS = json.loads((ORACLE / "layers2.json").read_text())


def gru_step(x):
    carry, inputs = jnp.split(x, [6], -1)
    resets = jnp.arange(len(x)) == 0
    return nn.GRU(6, name="m")(carry, inputs, resets, single=True)[1]


LAYERS = {
    "linear": lambda x: nn.Linear(5, name="m")(x),
    "linear_tuple": lambda x: nn.Linear((2, 3), name="m")(x),
    "blocklinear": lambda x: nn.BlockLinear(12, 4, name="m")(x),
    "rmsnorm": lambda x: nn.Norm("rms", name="m")(x),
    "layernorm": lambda x: nn.Norm("layer", name="m")(x),
    "mlp": lambda x: nn.MLP(3, 8, name="m")(x),
    "conv": lambda x: nn.Conv2D(4, 5, name="m")(x),
    "conv_stride2": lambda x: nn.Conv2D(4, 5, 2, name="m")(x),
    "conv_transposed_stride2": lambda x: nn.Conv2D(4, 5, 2, transp=True, name="m")(x),
    "gru_step": gru_step,
}


def make_embed(options, inputs):
    return nn.Embed(**options, name="m")(inputs["x"])


def make_attention(options, inputs):
    return nn.Attention(**options, name="m")(inputs["x"], inputs["mask"], inputs.get("ts"))


def make_transformer(options, inputs):
    return nn.Transformer(**options, name="m")(inputs["x"], inputs["mask"])


def make_dict_embed(options, inputs):
    classes = options["classes"]
    spaces = {
        key: Space(np.int32, x.shape[1:], 0, classes[key])
        if key in classes
        else Space(np.float32, x.shape[1:], -np.inf)
        for key, x in inputs.items()
    }
    return nn.DictEmbed(spaces, options["units"], impl=options["impl"], name="m")(inputs)


def make_conv3d(options, inputs):
    transposed = "stride" in options
    return nn.Conv3D(**options, transp=transposed, name="m")(inputs["x"])


MAKERS = {
    "embed": make_embed,
    "attention": make_attention,
    "transformer": make_transformer,
    "dict_embed": make_dict_embed,
    "conv3d": make_conv3d,
}


def compare(fn, recording, inputs, input_grads):
    """Run `fn(inputs)` with the recorded parameters and compare everything that is recorded."""
    params = {f"m/{k}": v for k, v in group(recording, "param").items()}
    created = jax.eval_shape(lambda: nj.init(fn)({}, inputs, seed=0))
    assert {k: v.shape for k, v in created.items()} == {k: v.shape for k, v in params.items()}
    smooth = {k: v for k, v in inputs.items() if k in input_grads}

    def loss(params, smooth):
        y = nj.pure(fn)(params, {**inputs, **smooth})[1]
        return (y * recording["cotangent"]).sum(), y

    (grads, smooth_grads), y = jax.jit(jax.grad(loss, (0, 1), has_aux=True))(params, smooth)
    assert_close(y, recording["y"], 1e-5, "output")
    for name, grad in grads.items():
        assert_close(grad, recording[f"grad/{name[2:]}"], 1e-4, name)
    for name, grad in smooth_grads.items():
        assert_close(grad, input_grads[name], 1e-4, name)
    assert len(grads) == sum(key.startswith("grad/") for key in recording)


def test_recordings_are_complete():
    assert {key.split("/")[0] for key in load("layers")} == set(LAYERS)
    assert {key.split("/")[0] for key in load("layers2")} == set(OPTIONS)


@pytest.mark.parametrize("name", LAYERS)
def test_layer_matches_recording(name):
    recording = group(load("layers"), name)
    inputs, grads = {"x": recording["x"]}, {"x": recording["grad_x"]}
    compare(lambda inputs: LAYERS[name](inputs["x"]), recording, inputs, grads)


@pytest.mark.parametrize("name", OPTIONS)
def test_layer_with_options_matches_recording(name):
    make = next(make for prefix, make in MAKERS.items() if name.startswith(prefix))
    recording = group(load("layers2"), name)
    inputs = {k[3:]: jnp.asarray(v) for k, v in recording.items() if k.startswith("in/")}
    grads = {k[8:]: v for k, v in recording.items() if k.startswith("grad_in/")}
    compare(lambda inputs: make(OPTIONS[name], inputs), recording, inputs, grads)


@pytest.mark.parametrize("name, squish", [("symlog", nn.symlog), ("identity", lambda x: x)])
def test_dict_concat_matches_recording(name, squish):
    described = json.loads((ORACLE / "dict_concat.json").read_text())
    spaces = {}
    for key, space in described.items():
        if space["classes"] is None:
            spaces[key] = Space(space["dtype"], tuple(space["shape"]), -np.inf)
        else:
            spaces[key] = Space(space["dtype"], tuple(space["shape"]), 0, space["classes"])
    recording = load("dict_concat")
    y = jax.jit(nn.DictConcat(spaces, 1, squish))(group(recording, "x"))
    assert_close(y, recording[f"y/{name}"], 1e-6)
