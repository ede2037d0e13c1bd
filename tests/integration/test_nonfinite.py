"""Losses and gradients that are not finite stop a run, or are left out."""

import json

import jax
import numpy as np
import pytest

from dreamerv3.cli import command_line, factories
from dreamerv3.main import main
from embodied.core.checkpoint import Checkpoint
from embodied.core.nonfinite import NonFiniteError
from embodied.jax.guard import LONGEST_ROW

OPTIONS = ["--configs", "debug", "--task", "toy_cue", "--logger.filter", "none"]


def batch(agent, rng, broken=False):
    """Sequences as the replay gives them; a broken one has a latent that is no number."""
    spaces = {**agent.obs_space, **agent.act_space, **agent.ext_space}
    shape = (8, 11)
    data = {key: np.zeros((*shape, *space.shape), space.dtype) for key, space in spaces.items()}
    data["reward"] = rng.normal(size=shape).astype(np.float32)
    data["is_first"][:, 0] = True
    if broken:
        data["dyn/deter"][3, 0] = np.nan
        data["is_first"][3] = False
    return data


def same(left, right):
    return jax.tree.all(jax.tree.map(lambda x, y: np.array_equal(x, y), left, right))


@pytest.fixture(scope="module", params=["stop", "skip"])
def agent(request):
    flags = [*OPTIONS, "--run.nonfinite", request.param]
    return factories.make_agent(command_line.resolve(flags))


@pytest.mark.slow
def test_only_bad_updates_are_taken_back(agent):
    if not agent._guard.skips:
        pytest.skip("stops")
    rng = np.random.default_rng(0)
    start = agent.save()
    good = [batch(agent, rng) for _ in range(3)]
    carry = agent.init_train(8)
    for data in good[:2]:
        carry, _, _ = agent.train(carry, data)
    before = agent.params
    carry, _, metrics = agent.train(carry, batch(agent, rng, broken=True))
    assert same(agent.params, before)
    assert metrics["opt/updates"] == 2
    assert np.isfinite(jax.tree.leaves(jax.device_get(carry))[0]).all()
    carry, outs, metrics = agent.train(carry, good[2])
    assert (outs, metrics) == ({}, {"skipped": 1})
    assert not same(agent.params, before)
    _, outs, metrics = agent.train(carry, good[2])
    assert metrics["opt/updates"] == 3 and "replay" in outs
    state = agent.save()
    assert state["counters"]["skipped"] == 1
    agent.load(start)
    assert agent.save()["counters"]["skipped"] == 0

    for _ in range(LONGEST_ROW):
        carry, _, _ = agent.train(agent.init_train(8), batch(agent, rng, broken=True))
    with pytest.raises(NonFiniteError, match="skipped"):
        agent.train(carry, good[0])


@pytest.mark.slow
def test_stop_names_terms_and_update_and_saves_nothing(agent):
    if agent._guard.skips:
        pytest.skip("skips")
    rng = np.random.default_rng(0)
    carry = agent.init_train(8)
    carry, _, _ = agent.train(carry, batch(agent, rng))
    agent.save()
    bad = batch(agent, rng, broken=True)
    carry, _, _ = agent.train(carry, bad)
    with pytest.raises(NonFiniteError, match="Update 2 .*'loss/dyn'.*--run.nonfinite"):
        agent.save()
    with pytest.raises(NonFiniteError) as caught:
        agent.train(carry, batch(agent, rng))
    error = caught.value
    assert error.update == 2
    assert {"loss/dyn", "loss/rew", "opt/loss", "opt/grad_norm"} <= set(error.names)
    assert error.names[0].startswith("loss/")
    assert all(
        np.array_equal(error.batch[key], bad[key], equal_nan=key == "dyn/deter") for key in bad
    )


@pytest.mark.slow
def test_run_that_diverges(tmp_path):
    flags = ["--agent.opt.lr", "1e30", "--agent.opt.warmup", "1", "--logdir", str(tmp_path)]
    with pytest.raises(NonFiniteError) as caught:
        main([*OPTIONS, *flags, "--run.envs", "1", "--run.save_every", "-1"])
    update = caught.value.update
    assert 1 < update < 5
    file = tmp_path / f"nonfinite-update{update:010d}.npz"
    assert any(str(file) in note for note in caught.value.__notes__)
    with np.load(file) as arrays:
        assert arrays["reward"].shape == (8, 11)
    # The run can be continued with other options from where all was well.
    _, states = Checkpoint(tmp_path / "ckpt").read(keys=["agent"])
    assert all(np.isfinite(value).all() for value in states["agent"]["params"].values())
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines
