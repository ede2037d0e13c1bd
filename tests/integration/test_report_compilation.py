"""The report is compiled while the agent learns."""

import numpy as np
import pytest

from dreamerv3.cli import factories
from dreamerv3.cli.presets import Presets
from embodied.core.streams import Stateless


@pytest.fixture(scope="module")
def agent():
    presets = Presets.load()
    config = presets.defaults.update(presets.changes("debug")).update({"task": "dummy_disc"})
    return factories.make_agent(config)


def batch(agent):
    spaces = {**agent.obs_space, **agent.act_space, **agent.ext_space}
    config = agent.config
    shape = (config.batch_size, config.batch_length + config.replay_context)
    data = {k: np.zeros((*shape, *s.shape), s.dtype) for k, s in spaces.items()}
    stream = agent.stream(Stateless(lambda: data))
    try:
        return next(stream)
    finally:
        stream.close()


@pytest.mark.slow
def test_an_error_in_the_report_stops_learning_soon(agent, monkeypatch):
    def fail(*args):
        raise ZeroDivisionError("the report is broken")

    monkeypatch.setattr(agent._report, "compile", fail)
    data, carry = batch(agent), agent.init_train(agent.config.batch_size)
    with pytest.raises(ZeroDivisionError, match="the report is broken"):
        for _ in range(50):
            carry, *_ = agent.train(carry, data)
    assert agent.save()["counters"]["train"] < 50
