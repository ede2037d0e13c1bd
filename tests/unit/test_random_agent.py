import json

import numpy as np

from embodied.core.random_agent import RandomAgent
from embodied.core.space import Space

OBS_SPACE = {"vector": Space(np.float32, (3,)), "is_first": Space(bool)}
ACT_SPACE = {
    "move": Space(np.float32, (2,), -3, 5),
    "button": Space(np.int32, (), 0, 4),
    "reset": Space(bool),
}
OBS = {"vector": np.zeros((6, 3), np.float32), "is_first": np.zeros(6, bool)}


def test_acts_within_the_action_space():
    agent = RandomAgent(OBS_SPACE, ACT_SPACE)
    carry, actions, outputs = agent.policy(agent.init_policy(6), OBS, mode="eval")
    assert carry == ()
    assert outputs == {}
    assert set(actions) == {"move", "button"}
    for key, values in actions.items():
        assert values.shape == (6, *ACT_SPACE[key].shape)
        assert all(value in ACT_SPACE[key] for value in values)
    assert len(np.unique(actions["move"])) == 12


def test_seed_decides_the_actions():
    def act(seed):
        agent = RandomAgent(OBS_SPACE, ACT_SPACE, seed)
        return agent.policy((), OBS)[1]["move"]

    np.testing.assert_array_equal(act(0), act(0))
    assert not np.array_equal(act(0), act(1))


def test_state_can_be_saved_as_plain_data():
    agent = RandomAgent(OBS_SPACE, ACT_SPACE, 3)
    state = json.loads(json.dumps(agent.save()))
    expected = agent.policy((), OBS)[1]["move"]
    other = RandomAgent(OBS_SPACE, ACT_SPACE, 4)
    other.load(state)
    np.testing.assert_array_equal(other.policy((), OBS)[1]["move"], expected)


def test_stands_in_for_a_learner():
    agent = RandomAgent(OBS_SPACE, ACT_SPACE)
    assert agent.ext_space == {}
    assert agent.train(agent.init_train(4), {}) == ((), {}, {})
    assert agent.report(agent.init_report(4), {}) == ((), {})
    source = object()
    assert agent.stream(source) is source
