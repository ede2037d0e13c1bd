"""Acting and training see the same history in the same way."""

import functools

import jax
import numpy as np
import pytest

from dreamerv3.agent import Dreamer
from dreamerv3.cli.presets import Presets
from embodied.core.config import Config
from embodied.core.space import Space
from embodied.jax import nj

OBS = {
    "vector": Space(np.float32, (3,)),
    "token": Space(np.int32, (), 0, 4),
    "reward": Space(np.float32),
    **{key: Space(bool) for key in ("is_first", "is_last", "is_terminal")},
}
ACT = {"move": Space(np.float32, (2,), -1, 1), "button": Space(np.int32, (), 0, 3)}
BATCH, LENGTH, START = 2, 9, 5


@pytest.fixture(scope="module")
def model():
    presets = Presets.load()
    config = presets.defaults.update(presets.changes("debug")).update({"agent.sampling": "mode"})
    return Dreamer(OBS, ACT, Config({**config.agent, "replay_context": 1}))


@pytest.fixture(scope="module")
def history(model):
    """Parameters, and a history [B, T] with an episode start in the middle, as the policy acts."""
    rng = np.random.default_rng(0)
    data = {key: np.zeros((BATCH, LENGTH, *s.shape), s.dtype) for key, s in OBS.items()}
    data["vector"][:] = rng.normal(size=data["vector"].shape)
    data["token"][:] = rng.integers(0, 4, data["token"].shape)
    data["is_first"][:, [0, START]] = True
    data["is_last"][:, START - 1] = True
    spaces = {**OBS, **ACT, **model.ext_space}
    example = {key: np.zeros((BATCH, LENGTH, *s.shape), s.dtype) for key, s in spaces.items()}
    params = nj.init(lambda: model.train(model.init_train(BATCH), example))({}, seed=0)
    policy = jax.jit(lambda *args: nj.pure(model.policy)(*args, seed=0)[1])
    carry, steps = model.init_policy(BATCH), []
    for time in range(LENGTH):
        obs = {key: data[key][:, time] for key in OBS}
        carry, action, latents = policy(params, carry, obs)
        steps.append({**action, **latents})
    acted = {key: np.stack([step[key] for step in steps], 1) for key in steps[0]}
    for key in ACT:
        # What comes out where an episode ends is replaced by the driver.
        acted[key][data["is_last"]] = 0
    return params, {**example, **data, **acted}


@pytest.fixture(scope="module")
def train_on(model):
    def latents(data):
        state, obs, previous = model.split(model.init_train(BATCH), data)
        _, (_, entries, _) = model.losses(state, obs, previous, training=True)
        return entries

    run = jax.jit(lambda params, data: nj.pure(latents)(params, data, seed=0, modify=True)[1])
    return functools.partial(jax.tree.map, np.asarray), run


def test_training_from_stored_context_gives_the_latents_of_acting(history, train_on):
    params, data = history
    to_numpy, run = train_on
    entries = to_numpy(run(params, data))
    np.testing.assert_allclose(entries["dyn/deter"], data["dyn/deter"][:, 1:], atol=1e-5)
    np.testing.assert_array_equal(entries["dyn/stoch"], data["dyn/stoch"][:, 1:])


def test_nothing_before_an_episode_start_matters_after_it(history, train_on):
    params, data = history
    to_numpy, run = train_on
    rng = np.random.default_rng(1)
    other = {key: value.copy() for key, value in data.items()}
    other["vector"][:, :START] = rng.normal(size=other["vector"][:, :START].shape)
    other["token"][:, :START] = rng.integers(0, 4, (BATCH, START))
    other["move"][:, :START] = rng.uniform(-1, 1, other["move"][:, :START].shape)
    other["button"][:, :START] = rng.integers(0, 3, (BATCH, START))
    other["dyn/deter"][:, 0] = rng.normal(size=other["dyn/deter"][:, 0].shape)
    before, after = to_numpy(run(params, data)), to_numpy(run(params, other))
    # The first step is context, so that step START is the one before it in the output.
    for key in before:
        np.testing.assert_array_equal(before[key][:, START - 1 :], after[key][:, START - 1 :])
    assert (before["dyn/deter"][:, : START - 1] != after["dyn/deter"][:, : START - 1]).any()
