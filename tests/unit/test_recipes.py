"""The options that reproduce the paper-era recipe change what they say."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dreamerv3.agent
from dreamerv3.agent import Dreamer
from dreamerv3.cli.presets import Presets
from dreamerv3.decoder import Decoder
from dreamerv3.encoder import Encoder
from dreamerv3.rssm import RSSM
from embodied.core.config import Config
from embodied.core.space import Space
from embodied.jax import nj
from embodied.jax.heads import MLPHead
from embodied.jax.normalize import Normalize
from embodied.jax.optimizer import Optimizer

OBS = {
    "image": Space(np.uint8, (64, 64, 3)),
    "vector": Space(np.float32, (40,)),
    "token": Space(np.int32, (), 0, 6),
    "reward": Space(np.float32),
    **{key: Space(bool) for key in ("is_first", "is_last", "is_terminal")},
}
ACT = {"action": Space(np.int32, (), 0, 4)}
STRIDED = {"mults": (1, 2, 3, 4), "outer": True, "strided": True}


def build(**options):
    """Make a toy-sized model; options are those of `agent`, with `__` for dots."""
    presets = Presets.load()
    config = presets.defaults.update(presets.changes("debug"))
    config = config.update({f"agent.{k.replace('__', '.')}": v for k, v in options.items()})
    return Dreamer(OBS, ACT, Config({**config.agent, "replay_context": 1}))


def example(model, batch=2, length=3):
    spaces = {**model.obs_space, **model.act_space, **model.ext_space}
    return {k: np.zeros((batch, length, *s.shape), s.dtype) for k, s in spaces.items()}


@functools.cache
def default_state():
    return state(build())


def state(model):
    data = example(model)
    return nj.init(lambda: model.train(model.init_train(2), data))({}, seed=0)


@pytest.mark.slow
def test_decoder_outscale_makes_initial_vector_outputs_ten_times_smaller():
    ours = state(build(dec__simple__vec_outscale=0.1))["dec/vec/vector/pred/kernel"]
    assert np.allclose(ours, 0.1 * default_state()["dec/vec/vector/pred/kernel"])


@pytest.mark.slow
def test_integer_vectors_as_numbers():
    new = state(build(enc__simple__symlog_ints=True, dec__simple__symlog_ints=True))
    assert default_state()["enc/mlp0/kernel"].shape[0] == 46
    assert new["enc/mlp0/kernel"].shape[0] == 41
    assert "dec/vec/token/logits/kernel" in default_state()
    assert new["dec/vec/token/pred/kernel"].shape[-1] == 1


@pytest.mark.slow
def test_strided_convolutions_with_an_outer_layer_halve_once_less():
    model = build(
        **{f"{part}__simple__{k}": v for part in ("enc", "dec") for k, v in STRIDED.items()}
    )
    params = state(model)
    assert params["enc/cnn0/kernel"].shape == (5, 5, 3, 2)
    # The smallest map has 64 / 2**3 = 8 pixels per side and 4 * depth = 8 channels.
    assert params["enc/mlp0/kernel"].shape[0] == 46
    assert params["dec/sp0/kernel"].shape[-1] * 8 == 8 * 8 * 8
    feat = {"deter": jnp.zeros((2, 8)), "stoch": jnp.zeros((2, 2, 4))}
    image = nj.pure(model.dec)(params, feat)[1]["image"].pred()
    assert image.shape == (2, 64, 64, 3)


@pytest.mark.slow
@pytest.mark.parametrize("unimix", [False, True])
def test_actor_unimix_keeps_every_action_possible(unimix):
    model = build(policy_unimix=unimix)
    params = dict(state(model))
    logits = jnp.array([50.0, 0, 0, 0])
    params["pol/head/action/logits/bias"] = logits
    params["pol/head/action/logits/kernel"] *= 0
    dist = nj.pure(model.pol)(params, jnp.zeros((1, 16)))[1]["action"]
    smallest = float(jnp.exp(dist.logp(jnp.array([3]))[0]))
    assert smallest == pytest.approx(0.0025 if unimix else 0, abs=1e-6)


@pytest.mark.slow
def test_continuation_of_the_start_from_the_replay(monkeypatch):
    class Imagined(Exception):
        """Carries the continuation out of the loss."""

    def spy(reward, cont, *args, **kwargs):
        raise Imagined(cont)

    monkeypatch.setattr(dreamerv3.agent, "imagination_targets", spy)
    for start in ("model", "replay"):
        model = build(imag_start=start)
        data = example(model)
        data["is_terminal"][0, -1] = True

        def run(model=model, data=data):
            args = model.split(model.init_train(2), data)
            try:
                model.losses(*args, training=True)
            except Imagined as imagined:
                return imagined.args[0]

        pure = nj.pure(run)
        params = default_state()
        cont = jax.jit(lambda params, pure=pure: pure(params, seed=0, modify=True)[1])(params)
        first = np.asarray(cont[:, 0])
        if start == "replay":
            assert first.tolist() == [1, 0, 1, 1]
        else:
            assert ((first > 0) & (first < 1)).all()


def test_unknown_choice_is_named():
    with pytest.raises(ValueError, match=r"agent\.imag_start='nowhere'.*model.*replay"):
        build(imag_start="nowhere")


def test_option_without_effect_is_refused():
    with pytest.raises(ValueError, match=r"agent\.repl_loss\.slowtar=True, expected False"):
        build(repl_loss__slowtar=True)


CLASSES = {
    RSSM: ["dyn.rssm"],
    Encoder: ["enc.simple"],
    Decoder: ["dec.simple"],
    MLPHead: ["rewhead", "conhead", "policy", "value"],
    Normalize: ["retnorm", "valnorm", "advnorm"],
    Optimizer: ["opt"],
}
# Off where the configuration does not turn them on: `policy_unimix`, and two of the normalizers.
OFF = {(MLPHead, "unimix"), (Normalize, "debias")}


@pytest.mark.parametrize("kind", CLASSES)
def test_defaults_of_classes_are_those_of_the_configuration(kind):
    agent = Presets.load().defaults.agent
    for key, default in kind._fields.items():
        values = [agent[block][key] for block in CLASSES[kind] if key in agent[block]]
        if values and type(default) is not object and (kind, key) not in OFF:
            assert default in values, key


@pytest.mark.slow
def test_whole_paper_recipe_trains():
    presets = Presets.load()
    config = presets.defaults.update(presets.changes("paper_recipe"))
    config = config.update(presets.changes("debug"))
    model = Dreamer(OBS, ACT, Config({**config.agent, "replay_context": 1}), "bfloat16")
    data = example(model)
    params = state(model)
    step = jax.jit(
        lambda params: nj.pure(model.train)(params, model.init_train(2), data, seed=0, modify=True)
    )
    params, (_, _, metrics) = step(params)
    assert all(np.isfinite(value).all() for value in metrics.values())
    same = {k.replace("slowval", "val"): v for k, v in params.items() if k.startswith("slowval/")}
    assert all(np.array_equal(params[k], v) for k, v in same.items())


@pytest.mark.slow
def test_priorities_are_the_losses_of_the_world_model():
    presets = Presets.load()
    config = presets.defaults.update(presets.changes("debug"))
    model = Dreamer(OBS, ACT, Config({**config.agent, "replay_context": 1, "priosignal": "model"}))
    data = example(model)

    def run(data):
        state, obs, previous = model.split(model.init_train(2), data)
        return model.losses(state, obs, previous, training=True)

    losses_of = nj.pure(run)
    compiled = jax.jit(lambda params, data: losses_of(params, data, seed=0, modify=True)[1])
    losses, (_, entries, _) = compiled(default_state(), data)
    expected = sum(losses[key] for key in ("image", "vector", "token", "dyn", "rep"))
    assert entries["priority"].shape == (2, 2)
    np.testing.assert_allclose(entries["priority"], expected, rtol=1e-6)
