"""Parameter paths, shapes and counts against those of the public code."""

import json
import math

import numpy as np
import pytest
from oracle_helpers import ORACLE

from dreamerv3.agent import Dreamer
from dreamerv3.cli.presets import Presets
from embodied.core.config import Config
from embodied.core.space import Space
from embodied.jax.params import creation_for_training, with_own_scaling

RECORDED = json.loads((ORACLE / "param_shapes.json").read_text())
FLAGS = {k: Space(bool) for k in ("is_first", "is_last", "is_terminal")}
COMMON = {"reward": Space(np.float32), **FLAGS}
SIZES = {"batch_size": 2, "batch_length": 3, "replay_context": 1}
CONTINUOUS = {"action": Space(np.float32, (6,), -1, 1)}
TASKS = {
    "dmc_walker_walk_proprio": (
        {
            k: Space(np.float32, n)
            for k, n in (("height", ()), ("orientations", 14), ("velocity", 9))
        },
        CONTINUOUS,
    ),
    "dmc_walker_walk_vision": ({"image": Space(np.uint8, (64, 64, 3))}, CONTINUOUS),
    "atari_pong": (
        {"image": Space(np.uint8, (96, 96, 1))},
        {"action": Space(np.int32, (), 0, 18)},
    ),
}


def shapes(task, size):
    presets = Presets.load()
    config = presets.defaults.update(presets.changes(size))
    obs, act = TASKS[task]
    options = Config({**config.agent, **SIZES})
    model = Dreamer({**obs, **COMMON}, act, options)
    state = creation_for_training(model, model.obs_space, act, options).shapes
    trained = tuple(f"{module.path}/" for module in model.opt.modules)
    found = {k: list(v.shape) for k, v in state.items() if not k.startswith("opt/state/")}
    return found, trained


@pytest.mark.slow
def test_float16_scales_the_loss():
    presets = Presets.load()
    config = presets.defaults.update(presets.changes("debug"))
    options = Config({**config.agent, **SIZES})
    obs, act = TASKS["dmc_walker_walk_proprio"]
    model = Dreamer({**obs, **COMMON}, act, options, "float16")
    scaled = creation_for_training(model, model.obs_space, act, options).shapes
    added = {"opt/grad_scale/value", "opt/good_steps/value"}
    other = {path: shape for path, shape in scaled.items() if path not in added}
    assert len(other) == len(scaled) - 2
    # So checkpoints of the one can be continued in the other.
    assert with_own_scaling(other, scaled).keys() == scaled.keys()
    assert with_own_scaling(scaled, other).keys() == other.keys()


def test_a_continued_run_keeps_its_factor_on_the_loss():
    saved = {"opt/grad_scale/value": 5e3, "opt/good_steps/value": 7, "pol/kernel": 1}
    begun = {"opt/grad_scale/value": 1e4, "opt/good_steps/value": 0, "pol/kernel": 0}
    assert with_own_scaling(saved, begun) == saved
    assert with_own_scaling({"pol/kernel": 1}, begun) == {**begun, "pol/kernel": 1}
    assert with_own_scaling(saved, {"pol/kernel": 0}) == {"pol/kernel": 1}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name.endswith("/size1m") else pytest.mark.slow)
        for name in RECORDED
    ],
)
def test_parameters_are_those_of_the_public_code(name):
    task, size = name.split("/")
    (ours, trained), recorded = shapes(task, size), RECORDED[name]
    counts = {}
    for path, shape in ours.items():
        if path.startswith(trained):
            module = path.split("/")[0]
            counts[module] = counts.get(module, 0) + math.prod(shape)
    assert counts == recorded["modules"]
    assert sum(counts.values()) == recorded["trainable"]
    if recorded["shapes"]:
        assert ours == recorded["shapes"]
