"""Observations named like a loss are learned, and no loss replaces another."""

import functools
import logging

import jax
import numpy as np
import pytest

from dreamerv3.agent import Dreamer
from dreamerv3.cli.presets import Presets
from dreamerv3.loss_terms import LossTerms, reconstruction_names
from embodied.core.config import Config
from embodied.core.space import Space
from embodied.jax import nj

NAMES = ("con", "dyn", "policy", "rep", "repval", "rew", "value")
OBS = {
    **{key: Space(np.float32, (2,)) for key in (*NAMES, "rec", "rec/value", "plain")},
    "reward": Space(np.float32),
    **{key: Space(bool) for key in ("is_first", "is_last", "is_terminal")},
}
ACT = {"action": Space(np.int32, (), 0, 4)}
EXPECTED = {
    **{key: f"rec/{key}" for key in NAMES},
    "value": "rec/rec/value",
    "rec": "rec",
    "rec/value": "rec/value",
    "plain": "plain",
}


def build(obs=OBS, **options):
    presets = Presets.load()
    config = presets.defaults.update(presets.changes("debug"))
    config = config.update({f"agent.{key}": value for key, value in options.items()})
    return Dreamer(obs, ACT, Config({**config.agent, "replay_context": 1, "priosignal": "model"}))


def shapes_of_losses(model):
    spaces = {**model.obs_space, **model.act_space, **model.ext_space}
    data = {k: np.zeros((2, 3, *s.shape), s.dtype) for k, s in spaces.items()}

    def run(data):
        args = model.split(model.init_train(2), data)
        losses, _ = model.losses(*args, training=True)
        return losses

    create = functools.partial(nj.init(run), {}, seed=np.zeros(2, np.uint32))
    params = jax.eval_shape(create, data)
    call = functools.partial(nj.pure(run), seed=np.zeros(2, np.uint32), modify=True)
    return jax.eval_shape(call, params, data)[1]


def test_every_observation_has_a_loss_of_its_own_with_the_weight_of_reconstructions(caplog):
    model = build(**{"loss_scales.rec": 0.5})
    assert model.rec_names == EXPECTED
    assert len(caplog.records) == len(NAMES)
    assert "'value'" in caplog.text and "'rec/rec/value'" in caplog.text
    losses = shapes_of_losses(model)
    assert set(losses) == {*EXPECTED.values(), *NAMES}
    assert {model.scales[name] for name in EXPECTED.values()} == {0.5}
    assert model.scales["repval"] == 0.3


def test_ordinary_observations_keep_the_names_of_their_metrics(caplog):
    with caplog.at_level(logging.WARNING):
        assert reconstruction_names(["image", "rec"], NAMES) == {"image": "image", "rec": "rec"}
    assert not caplog.records


def test_two_losses_of_one_name_are_an_error():
    losses = LossTerms({"dyn": np.zeros((2, 3))})
    losses["mine"] = np.zeros((2, 3))
    with pytest.raises(ValueError, match=r"two losses named 'mine'.*\(2, 3\).*\(2, 2\)"):
        losses.update({"mine": np.zeros((2, 2))})
