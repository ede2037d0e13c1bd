import functools
import itertools

import numpy as np
import pytest
from counting_env import CountingEnv

from embodied.core.driver import Driver
from embodied.core.random_agent import RandomAgent
from embodied.core.space import Space
from embodied.core.state_tree import flatten, unflatten
from embodied.core.stepping.checked_env import WorkerError


class LoggingEnv(CountingEnv):
    """Sends an optional log value at even steps, and has a log key of its own if told so."""

    def __init__(self, length=3, extra=False):
        super().__init__(length)
        self.extra = extra

    @property
    def obs_space(self):
        spaces = {**super().obs_space, "log/even": Space(np.float32)}
        return {**spaces, "log/extra": Space(np.int32, (2,))} if self.extra else spaces

    def step(self, action):
        obs = super().step(action)
        if self.count % 2 == 0:
            obs["log/even"] = np.float32(self.count)
        if self.extra:
            obs["log/extra"] = np.full(2, self.count, np.int32)
        return obs


def count_policy(carry, obs):
    """Acts with ten times the worker plus the number of the call, as a float outside of bounds."""
    carry = carry + 1
    action = 10 * np.arange(len(obs["is_first"]))[:, None] + carry + np.zeros((1, 2))
    return carry, {"action": action.astype(np.float32)}, {"call": np.full(len(action), carry)}


def collect(driver, policy=count_policy, **kwargs):
    transitions = [[] for _ in range(len(driver))]
    order = []

    def append(transition, worker):
        transitions[worker].append(transition)
        order.append(worker)

    driver.on_step(append)
    driver.reset(lambda size: 0)
    driver(policy, **kwargs)
    return transitions, order


def test_protocol_of_resets_and_actions():
    envs = []

    def make(length):
        envs.append(CountingEnv(length))
        return envs[-1]

    driver = Driver([functools.partial(make, 2), functools.partial(make, 3)], parallel=False)
    transitions, order = collect(driver, steps=20)
    assert order == [0, 1] * 10
    for worker, length in ((0, 2), (1, 3)):
        received = envs[worker].received
        stream = transitions[worker]
        assert [int(x["count"]) for x in stream] == [i % (length + 1) for i in range(10)]
        assert received[0]["reset"]
        np.testing.assert_array_equal(received[0]["action"], [0, 0])
        for call, transition in enumerate(stream, 1):
            last = bool(transition["is_last"])
            # The stored action was chosen after the observation, and is zero at the end.
            expected = np.zeros(2) if last else np.full(2, 10 * worker + call)
            np.testing.assert_array_equal(transition["action"], expected)
            assert transition["action"].dtype == np.float32
            if call < len(received):
                np.testing.assert_array_equal(received[call]["action"], expected)
                assert bool(received[call]["reset"]) == last
            assert int(transition["call"]) == call
        # The next observation echoes the stored action, except across resets.
        for now, after in itertools.pairwise(stream):
            np.testing.assert_array_equal(after["echo"], now["action"])
            assert bool(after["is_first"]) == bool(now["is_last"])


def test_transitions_have_all_keys_but_reset():
    driver = Driver([LoggingEnv], parallel=False)
    transitions, _ = collect(driver, steps=2)
    expected = {*driver.obs_space, "action", "call"}
    assert set(transitions[0][0]) == expected
    assert set(transitions[0][1]) == expected - {"log/even"}


def test_log_values_are_optional_and_hidden_from_the_policy():
    seen = []

    def policy(carry, obs):
        seen.append(set(obs))
        return count_policy(carry, obs)

    makers = [LoggingEnv, functools.partial(LoggingEnv, extra=True)]
    driver = Driver(makers, parallel=False)
    assert set(driver.obs_space) >= {"log/even", "log/extra"}
    transitions, _ = collect(driver, policy, steps=8)
    assert all(not key.startswith("log/") for keys in seen for key in keys)
    assert ["log/even" in x for x in transitions[0]] == [True, False, True, False]
    assert [x["log/extra"].tolist() for x in transitions[1]] == [[i, i] for i in range(4)]
    assert all("log/extra" not in x for x in transitions[0])


def test_runs_for_steps_or_episodes():
    driver = Driver([functools.partial(CountingEnv, 3)] * 4, parallel=False)
    _, order = collect(driver, steps=10)
    assert len(order) == 12
    transitions, _ = collect(driver, episodes=5)
    assert sum(bool(x["is_last"]) for stream in transitions for x in stream) == 8
    transitions, _ = collect(driver, steps=0, episodes=0)
    assert transitions == [[], [], [], []]


def test_reset_starts_new_episodes_and_carry():
    driver = Driver([functools.partial(CountingEnv, 9)] * 2, parallel=False)
    collect(driver, steps=6)
    transitions, _ = collect(driver, steps=2)
    assert [int(x[0]["call"]) for x in transitions] == [1, 1]
    assert [bool(x[0]["is_first"]) for x in transitions] == [True, True]


def test_transitions_are_never_written_again():
    driver = Driver([functools.partial(CountingEnv, 50)] * 2, parallel=False)
    transitions, _ = collect(driver, steps=40)
    assert [int(x["count"]) for x in transitions[1]] == list(range(20))


def test_actions_are_converted_to_the_dtypes_of_the_space():
    def policy(carry, obs):
        return carry, {"action": np.full((2, 2), 0.5)}, {}

    transitions, _ = collect(Driver([CountingEnv] * 2, parallel=False), policy, steps=2)
    assert transitions[0][0]["action"].dtype == np.float32


@pytest.mark.parametrize(
    ("actions", "reason"),
    [
        ({}, "expected key 'action'"),
        ({"action": np.zeros((2, 3), np.float32)}, r"shape \(2, 3\).*expected \(2, 2\)"),
        ({"action": np.zeros((3, 2), np.float32)}, r"shape \(3, 2\)"),
        ({"action": np.zeros((2, 2), complex)}, "complex128"),
    ],
)
def test_actions_that_do_not_fit_are_refused(actions, reason):
    driver = Driver([CountingEnv] * 2, parallel=False)
    with pytest.raises(ValueError, match=reason):
        driver(lambda carry, obs: (carry, actions, {}), steps=1)


def test_random_agent_drives():
    with Driver([CountingEnv] * 3, parallel=False) as driver:
        agent = RandomAgent(driver.obs_space, driver.act_space)
        transitions, _ = collect(driver, agent.policy, steps=30)
    assert len(transitions[2]) == 10
    with pytest.raises(RuntimeError, match="after closing"):
        driver(agent.policy, steps=1)


class FailingEnv(CountingEnv):
    """Fails in the given step."""

    def __init__(self, step, obs=None):
        super().__init__(100)
        self.step_to_fail = step
        self.obs = obs
        if not step:
            raise KeyError("no such level")

    def step(self, action):
        obs = super().step(action)
        if len(self.received) < self.step_to_fail:
            return obs
        if self.obs is None:
            raise OSError("connection lost")
        return {**obs, **self.obs}


def make_failing(step, obs=None):
    makers = [functools.partial(FailingEnv, 1000)] * 4
    makers[2] = functools.partial(FailingEnv, step, obs)
    return makers


def test_errors_name_worker_step_and_traceback():
    driver = Driver(make_failing(5), parallel=False)
    with pytest.raises(WorkerError, match="Env worker 2 failed at step 5: OSError") as info:
        collect(driver, steps=1000)
    assert (info.value.worker, info.value.step) == (2, 5)
    assert 'raise OSError("connection lost")' in str(info.value)
    assert isinstance(info.value.__cause__, OSError)


def test_constructor_errors_close_what_was_constructed():
    made = []

    def make():
        made.append(CountingEnv())
        return made[-1]

    with pytest.raises(WorkerError, match="Env worker 2 failed during construction: KeyError"):
        Driver([make, make, functools.partial(FailingEnv, 0)], parallel=False)
    assert [env.closed for env in made] == [1, 1]


def test_invalid_observations_stop_at_the_first_occurrence():
    nan = {"echo": np.full(2, np.nan, np.float32)}
    stored = []
    driver = Driver(make_failing(7, nan), parallel=False)
    driver.on_step(lambda transition, worker: stored.append(transition["echo"]))
    with pytest.raises(WorkerError, match=r"worker 2 failed at step 7: .*'echo'.*NaN"):
        driver(lambda carry, obs: (carry, {"action": np.ones((4, 2))}, {}), steps=1000)
    assert len(stored) == 4 * 6
    assert np.isfinite(stored).all()


def test_a_reset_must_start_an_episode():
    driver = Driver(make_failing(1, {"is_first": np.bool_(False)}), parallel=False)
    with pytest.raises(WorkerError, match=r"worker 2 .* 'is_first': expected True after a reset"):
        collect(driver, steps=1000)


class Undeclared(CountingEnv):
    """Has changed spaces."""

    def __init__(self, obs=(), act=(), drop=()):
        super().__init__()
        self.changed = dict(obs), dict(act), drop

    @property
    def obs_space(self):
        spaces = {**super().obs_space, **self.changed[0]}
        return {k: v for k, v in spaces.items() if k not in self.changed[2]}

    @property
    def act_space(self):
        spaces = {**super().act_space, **self.changed[1]}
        return {k: v for k, v in spaces.items() if k not in self.changed[2]}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"drop": ("reward",)}, "obs_space: key 'reward'.*got None"),
        ({"obs": {"reward": Space(np.float64)}}, "key 'reward': expected.*float32"),
        ({"obs": {"is_last": Space(np.int32)}}, "key 'is_last': expected.*bool"),
        ({"drop": ("reset",)}, "act_space: key 'reset'"),
        ({"obs": {"action": Space(np.float32)}}, r"both for \['action'\]"),
    ],
)
def test_spaces_that_break_the_contract_are_refused(changes, reason):
    with pytest.raises(WorkerError, match=reason):
        Driver([functools.partial(Undeclared, **changes)], parallel=False)


def test_different_spaces_are_refused():
    makers = [Undeclared, functools.partial(Undeclared, act={"action": Space(np.float32, (3,))})]
    with pytest.raises(WorkerError, match=r"worker 1 .*'action': expected .* as in worker 0"):
        Driver(makers, parallel=False)


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="no environments"):
        Driver([], parallel=False)
    with pytest.raises(ValueError, match="timeout -1"):
        Driver([CountingEnv], parallel=False, timeout=-1)


class Interrupted(BaseException):
    pass


def interrupted_driver(envs, after):
    """A driver whose callback raised after some transitions; also these transitions."""
    seen = []

    def callback(transition, worker):
        seen.append((worker, int(transition["count"]), int(transition["episode"])))
        if len(seen) == after:
            raise Interrupted

    driver = Driver([functools.partial(CountingEnv, 5 + i) for i in range(envs)], parallel=False)
    driver.on_step(callback)
    driver.reset(lambda size: np.zeros(()))
    with pytest.raises(Interrupted):
        driver(count_policy, steps=100)
    return driver, seen


def test_a_saved_position_goes_on_between_two_transitions():
    _, whole = interrupted_driver(3, 60)
    driver, seen = interrupted_driver(3, 31)
    flat = flatten(driver.save())
    state = unflatten(flat.tree, flat.arrays)
    driver = Driver([functools.partial(CountingEnv, 5 + i) for i in range(3)], parallel=False)
    driver.reset(lambda size: np.zeros(()))
    driver.on_step(
        lambda transition, worker: seen.append(
            (worker, int(transition["count"]), int(transition["episode"]))
        )
    )
    assert driver.load(state)
    driver(count_policy, steps=29)
    assert seen == whole


@pytest.mark.parametrize("envs", [2, 4])
def test_another_number_of_environments_begins_new_episodes(envs):
    driver, _ = interrupted_driver(3, 31)
    state = driver.save()
    assert [worker for _, worker in state["pending"]] == [1, 2]
    driver = Driver([functools.partial(CountingEnv, 5) for _ in range(envs)], parallel=False)
    driver.reset(lambda size: np.zeros(()))
    order = []
    driver.on_step(lambda transition, worker: order.append((worker, bool(transition["is_first"]))))
    assert not driver.load(state)
    driver(count_policy, steps=1)
    # What was pending of workers that are still there comes first.
    pending = [(worker, False) for worker in (1, 2) if worker < envs]
    assert order == pending
    driver(count_policy, steps=1)
    assert order == pending + [(worker, True) for worker in range(envs)]
