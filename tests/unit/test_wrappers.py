import builtins

import numpy as np
import pytest
from counting_env import CountingEnv, flags, play

from embodied.core import wrappers
from embodied.core.space import Space, SpaceError
from embodied.core.state_tree import flatten, unflatten
from embodied.core.wrappers import episodes

ACTION = {"action": np.array([0.5, -1.5], np.float32), "reset": np.bool_(False)}
RESET = {"action": np.zeros(2, np.float32), "reset": np.bool_(True)}


def make_wrapped():
    """Every wrapper whose behaviour must not depend on the number of the episode."""
    return {
        "limit": wrappers.TimeLimit(CountingEnv(20), 4),
        "limit_beyond": wrappers.TimeLimit(CountingEnv(3), 7),
        "repeat": wrappers.ActionRepeat(CountingEnv(7), 3),
        "repeat_terminal": wrappers.ActionRepeat(CountingEnv(7, terminal=True), 3),
        "limit_of_repeat": wrappers.TimeLimit(wrappers.ActionRepeat(CountingEnv(50), 3), 4),
        "repeat_of_limit": wrappers.ActionRepeat(wrappers.TimeLimit(CountingEnv(50), 7), 3),
        "return": wrappers.BackwardReturn(CountingEnv(6), 4),
        "normalize": wrappers.NormalizeAction(CountingEnv(4, low=-3, high=5), "action"),
        "clip": wrappers.ClipAction(CountingEnv(4), "action"),
        "unify": wrappers.UnifyDtypes(CountingEnv(4)),
        "check": wrappers.CheckSpaces(CountingEnv(4)),
        "discretize": wrappers.DiscretizeAction(CountingEnv(4), "action", 3),
        "restart": wrappers.RestartOnException(lambda: CountingEnv(4)),
    }


@pytest.mark.parametrize("name", make_wrapped())
def test_episodes_are_alike_and_fit_their_spaces(name):
    env = wrappers.CheckSpaces(make_wrapped()[name])
    episodes = play(env, 4)
    for episode in episodes:
        assert flags(episode) == flags(episodes[0])
        assert episode[0]["reward"] == 0
        for obs, expected in zip(episode, episodes[0], strict=True):
            for key in obs:
                if key != "episode":
                    np.testing.assert_array_equal(obs[key], expected[key])
    assert [int(episode[0]["episode"]) for episode in episodes] == [0, 1, 2, 3]


@pytest.mark.parametrize("name", make_wrapped())
def test_a_saved_environment_goes_on_in_the_middle_of_an_episode(name):
    env, other = make_wrapped()[name], make_wrapped()[name]
    action = {key: space.sample(np.random.default_rng(0)) for key, space in env.act_space.items()}
    action["reset"] = np.bool_(False)
    for _ in range(6):
        env.step(action)
    tree = flatten(env.save())
    other.load(unflatten(tree.tree, tree.arrays))
    for _ in range(20):
        np.testing.assert_equal(other.step(action), env.step(action))


def test_an_environment_that_cannot_be_saved_makes_its_wrappers_so():
    class Unsaved(CountingEnv):
        def save(self):
            return None

    for wrap in (wrappers.BackwardReturn, wrappers.TimeLimit, wrappers.ActionRepeat):
        assert wrap(Unsaved(4), 3).save() is None
    assert wrappers.RestartOnException(lambda: Unsaved(4)).save() is None


class TestTimeLimit:
    def test_ends_episodes_without_terminal(self):
        (episode,) = play(wrappers.TimeLimit(CountingEnv(20), 4), 1)
        assert flags(episode) == "F...L"

    def test_keeps_earlier_ends(self):
        (episode,) = play(wrappers.TimeLimit(CountingEnv(3, terminal=True), 4), 1)
        assert flags(episode) == "F..T"
        (episode,) = play(wrappers.TimeLimit(CountingEnv(4, terminal=True), 4), 1)
        assert flags(episode) == "F...T"

    def test_zero_is_no_limit(self):
        (episode,) = play(wrappers.TimeLimit(CountingEnv(20), 0), 1)
        assert len(episode) == 21

    def test_starts_over_without_being_asked(self):
        env = wrappers.TimeLimit(CountingEnv(20), 2)
        seen = [env.step(ACTION) for _ in range(7)]
        assert flags(seen) == "F.LF.LF"

    def test_without_reset_the_environment_goes_on(self):
        inner = CountingEnv(8)
        env = wrappers.TimeLimit(inner, 3, reset=False)
        episodes = play(env, 4)
        assert [flags(episode) for episode in episodes] == ["F..L", "F..L", "L", "F..L"]
        counts = [[int(obs["count"]) for obs in episode] for episode in episodes]
        assert counts == [[0, 1, 2, 3], [4, 5, 6, 7], [8], [0, 1, 2, 3]]
        assert [obs["is_first"] for obs in episodes[2]] == [True]
        assert [float(episode[0]["reward"]) for episode in episodes] == [0, 0, 0, 0]

    def test_without_reset_a_reset_in_the_middle_is_real(self):
        env = wrappers.TimeLimit(CountingEnv(20), 5, reset=False)
        env.step(RESET)
        env.step(ACTION)
        obs = env.step(RESET)
        assert (int(obs["episode"]), int(obs["count"])) == (1, 0)

    def test_counts_anew_when_the_environment_restarts_itself(self):
        env = wrappers.TimeLimit(CountingEnv(20), 4)
        seen = [env.step(RESET), env.step(ACTION), env.step(ACTION)]
        env.env.done = True
        seen += [env.step(ACTION) for _ in range(5)]
        assert flags(seen) == "F..F...L"

    def test_refuses_negative_durations(self):
        with pytest.raises(ValueError, match="duration -1"):
            wrappers.TimeLimit(CountingEnv(), -1)


class TestActionRepeat:
    def test_sums_rewards_and_returns_the_last_observation(self):
        (episode,) = play(wrappers.ActionRepeat(CountingEnv(6), 3), 1)
        assert [int(obs["count"]) for obs in episode] == [0, 3, 6]
        assert [float(obs["reward"]) for obs in episode] == [0, 1 + 2 + 3, 4 + 5 + 6]
        assert episode[1]["reward"].dtype == np.float32

    def test_stops_at_the_end_of_the_episode(self):
        for terminal in (False, True):
            (episode,) = play(wrappers.ActionRepeat(CountingEnv(4, terminal), 3), 1)
            assert [int(obs["count"]) for obs in episode] == [0, 3, 4]
            assert flags(episode) == ("F.T" if terminal else "F.L")

    def test_resets_are_not_repeated(self):
        env = wrappers.ActionRepeat(CountingEnv(4), 3)
        assert int(env.step(RESET)["count"]) == 0
        assert int(env.step(RESET)["count"]) == 0
        assert len(env.env.received) == 2

    def test_stops_when_the_environment_restarts_itself(self):
        env = wrappers.ActionRepeat(CountingEnv(20), 3)
        env.step(RESET)
        env.step(ACTION)
        env.env.done = True
        obs = env.step(ACTION)
        assert (int(obs["count"]), float(obs["reward"]), bool(obs["is_first"])) == (0, 0, True)

    def test_refuses_zero(self):
        with pytest.raises(ValueError, match="at least 1"):
            wrappers.ActionRepeat(CountingEnv(), 0)


class TestActions:
    def test_clip_passes_on_values_in_bounds(self):
        env = wrappers.ClipAction(CountingEnv(), "action")
        env.step(ACTION)
        received = env.env.received[0]["action"]
        np.testing.assert_array_equal(received, np.array([0.5, -1], np.float32))
        assert received.dtype == np.float32
        assert ACTION["action"][1] == -1.5

    def test_normalize_maps_to_the_bounds_exactly(self):
        low, high = np.float32([0.1, -7]), np.float32([0.3, 5])
        env = wrappers.NormalizeAction(CountingEnv(low=low, high=high), "action")
        assert env.act_space["action"] == Space(np.float32, (2,), -1, 1)
        for value, expected in ((-1, low), (1, high), (0, (low + high) / 2)):
            env.step({"action": np.full(2, value, np.float32), "reset": np.bool_(False)})
            received = env.env.received[-1]["action"]
            np.testing.assert_array_equal(received, expected.astype(np.float32))
            assert received.dtype == np.float32

    def test_normalize_leaves_unbounded_components(self):
        low, high = np.float32([-np.inf, 0]), np.float32([5, 10])
        env = wrappers.NormalizeAction(CountingEnv(low=low, high=high), "action")
        space = env.act_space["action"]
        np.testing.assert_array_equal(space.low, np.float32([-np.inf, -1]))
        np.testing.assert_array_equal(space.high, np.float32([5, 1]))
        env.step({"action": np.float32([3, 0.5]), "reset": np.bool_(False)})
        np.testing.assert_allclose(env.env.received[-1]["action"], [3, 7.5])
        unbounded = wrappers.NormalizeAction(CountingEnv(low=None, high=None), "action")
        assert unbounded.act_space["action"] == Space(np.float32, (2,))

    def test_discretize_chooses_evenly_spaced_values(self):
        env = wrappers.DiscretizeAction(CountingEnv(low=[-1, 0], high=[1, 10]), "action", 5)
        assert env.act_space["action"] == Space(np.int32, (2,), 0, 5)
        for index, expected in (([0, 4], [-1, 10]), ([3, 1], [0.5, 2.5])):
            env.step({"action": np.array(index, np.int32), "reset": np.bool_(False)})
            received = env.env.received[-1]["action"]
            np.testing.assert_array_equal(received, np.array(expected, np.float32))
            assert received.dtype == np.float32

    def test_discretize_uses_unit_range_without_bounds(self):
        env = wrappers.DiscretizeAction(CountingEnv(low=None, high=None, shape=()), "action", 3)
        env.step({"action": np.int32(2), "reset": np.bool_(False)})
        assert env.env.received[-1]["action"] == 1

    @pytest.mark.parametrize("name", ["ClipAction", "NormalizeAction", "DiscretizeAction"])
    def test_unknown_and_discrete_keys_are_refused(self, name):
        with pytest.raises(ValueError, match="'actoin', expected one of"):
            getattr(wrappers, name)(CountingEnv(), "actoin")
        with pytest.raises(ValueError, match="float"):
            getattr(wrappers, name)(CountingEnv(), "reset")


class Wide(CountingEnv):
    """Observes and takes 64-bit values."""

    @property
    def obs_space(self):
        spaces = {"wide": Space(np.float64, (2,), 0, 9), "long": Space(np.int64, (2,))}
        kept = {"image": Space(np.uint8, (2, 2, 1))}
        return {**super().obs_space, **spaces, **kept}

    @property
    def act_space(self):
        return {"action": Space(np.float64, (2,), -1, 1), "reset": Space(bool)}

    def step(self, action):
        obs = super().step(action)
        obs["echo"] = obs["echo"].astype(np.float32)
        long = np.array([self.count, -(10 ** (3 * self.count))])
        image = np.full((2, 2, 1), 200, np.uint8)
        return {**obs, "wide": np.ones(2), "long": long, "image": image}


class TestUnifyDtypes:
    def test_spaces_and_values_have_unified_dtypes(self):
        env = wrappers.CheckSpaces(wrappers.UnifyDtypes(Wide()))
        assert env.obs_space["wide"] == Space(np.float32, (2,), 0, 9)
        assert env.obs_space["long"] == Space(np.int32, (2,))
        assert env.obs_space["image"] == Space(np.uint8, (2, 2, 1))
        assert env.act_space["action"] == Space(np.float32, (2,), -1, 1)
        env.step(RESET)
        obs = env.step({**ACTION, "action": np.float32([0.5, 0.25])})
        np.testing.assert_array_equal(obs["long"], [1, -1000])
        assert env.env.env.received[-1]["action"].dtype == np.float64

    def test_integers_that_do_not_fit_are_an_error(self):
        env = wrappers.UnifyDtypes(Wide())
        env.step(RESET)
        with pytest.raises(ValueError, match="'long'"):
            for _ in range(4):
                env.step(ACTION)


class Broken(CountingEnv):
    """Returns what it is given in place of parts of the observation."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def step(self, action):
        return self.change(super().step(action))


def without(obs, key):
    return {k: v for k, v in obs.items() if k != key}


class TestCheckSpaces:
    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (lambda obs: {**obs, "echo": np.full(2, np.nan, np.float32)}, "'echo'.*NaN"),
            (lambda obs: {**obs, "echo": np.full(2, -np.inf, np.float32)}, "'echo'.*got -inf"),
            (lambda obs: {**obs, "echo": np.zeros(3, np.float32)}, r"'echo'.*shape \(2,\), got"),
            (lambda obs: {**obs, "echo": np.zeros(2)}, "'echo'.*float32, got float64"),
            (lambda obs: {**obs, "echo": np.array([None, 1])}, "'echo'.*got object"),
            (lambda obs: {**obs, "reward": np.float32(np.inf)}, "'reward'.*got inf"),
            (lambda obs: {**obs, "count": np.int32(-1)}, "'count'.*got -1"),
            (lambda obs: {**obs, "is_last": 0}, "'is_last'.*bool, got int64"),
            (lambda obs: without(obs, "reward"), "'reward' is missing"),
            (lambda obs: {**obs, "speed": np.float32(0)}, r"\['speed'\] are not declared"),
            (lambda obs: (obs, {}), "expected a dict .* got a tuple of length 2"),
        ],
    )
    def test_rejects_invalid_observations(self, change, reason):
        with pytest.raises(SpaceError, match=reason):
            wrappers.CheckSpaces(Broken(change)).step(RESET)

    def test_accepts_python_numbers_for_scalars(self):
        def change(obs):
            return {**obs, "reward": 1.5, "count": 3, "is_first": True, "is_last": False}

        assert wrappers.CheckSpaces(Broken(change)).step(RESET)["reward"] == 1.5
        with pytest.raises(SpaceError, match=r"'reward'.*NaN"):
            wrappers.CheckSpaces(Broken(lambda x: {**x, "reward": float("nan")})).step(RESET)

    def test_rejects_invalid_actions(self):
        env = wrappers.CheckSpaces(CountingEnv())
        with pytest.raises(SpaceError, match="Invalid action: key 'action'"):
            env.step(ACTION)
        with pytest.raises(SpaceError, match="Invalid action: key 'reset' is missing"):
            env.step({"action": np.zeros(2, np.float32)})


class Camera(CountingEnv):
    """Observes an image whose brightness grows downwards and to the right, by channel."""

    def __init__(self, shape, dtype):
        super().__init__()
        high = 1 if np.dtype(dtype).kind == "f" else None
        self.space = Space(dtype, shape, high and 0, high)
        rows, columns, channels = np.indices(shape)
        image = np.where(channels % 2 == 0, rows / shape[0], columns / shape[1])
        self.image = (image * (1 if high else 255)).astype(dtype)

    @property
    def obs_space(self):
        return {**super().obs_space, "image": self.space}

    def step(self, action):
        return {**super().step(action), "image": self.image}


class TestResizeImage:
    @pytest.mark.parametrize("dtype", [np.uint8, np.float32])
    @pytest.mark.parametrize("channels", [1, 2, 3, 4, 6])
    def test_keeps_orientation_range_and_channels(self, channels, dtype):
        env = wrappers.ResizeImage(Camera((96, 64, channels), dtype), "image", (24, 32))
        env = wrappers.CheckSpaces(env)
        image = env.step(RESET)["image"]
        assert env.obs_space["image"].shape == image.shape == (24, 32, channels)
        unit = 255 if dtype == np.uint8 else 1
        rows = np.arange(24)[:, None] / 24
        np.testing.assert_allclose(image[..., 0] / unit, rows.repeat(32, 1), atol=0.05)
        if channels > 1:
            columns = np.arange(32)[None] / 32
            np.testing.assert_allclose(image[..., 1] / unit, columns.repeat(24, 0), atol=0.05)

    def test_same_size_passes_through(self):
        camera = Camera((8, 8, 3), np.uint8)
        env = wrappers.ResizeImage(camera, "image", (8, 8))
        assert env.step(RESET)["image"] is camera.image

    def test_refuses_what_is_no_image(self):
        with pytest.raises(ValueError, match="height, width and channels"):
            wrappers.ResizeImage(CountingEnv(), "echo", (8, 8))

    def test_names_the_package_to_install(self, monkeypatch):
        original = builtins.__import__

        def block(name, *args, **kwargs):
            if name == "PIL":
                raise ImportError(name)
            return original(name, *args, **kwargs)

        monkeypatch.setattr(builtins, "__import__", block)
        with pytest.raises(ImportError, match="pip install pillow"):
            wrappers.ResizeImage(Camera((8, 8, 3), np.uint8), "image", (4, 4))


def test_backward_return_is_the_discounted_sum_of_past_rewards():
    env = wrappers.BackwardReturn(CountingEnv(3), horizon=2)
    for episode in play(env, 2):
        values = [float(obs["bwreturn"]) for obs in episode]
        assert values == [0, 1, 2 + 0.5, 3 + 0.5 * 2.5]


def test_add_obs_adds_a_constant():
    env = wrappers.CheckSpaces(
        wrappers.AddObs(CountingEnv(3), "task", 4, Space(np.int32, (), 0, 10))
    )
    for episode in play(env, 2):
        assert [int(obs["task"]) for obs in episode] == [4] * 4
    with pytest.raises(ValueError, match="does not have"):
        wrappers.AddObs(CountingEnv(), "count", 4, Space(np.int32))
    with pytest.raises(ValueError, match="got 12"):
        wrappers.AddObs(CountingEnv(), "task", 12, Space(np.int32, (), 0, 10))


class Crashing(CountingEnv):
    """Raises in the steps whose numbers are in `crashes`, counted over all instances."""

    steps = 0
    crashes = ()
    instances = ()

    def __init__(self):
        super().__init__(10)
        Crashing.instances = (*Crashing.instances, self)

    def step(self, action):
        Crashing.steps += 1
        if Crashing.steps in Crashing.crashes:
            raise OSError(f"crash {Crashing.steps}")
        return super().step(action)


class TestRestartOnException:
    @pytest.fixture(autouse=True)
    def clean(self, monkeypatch):
        monkeypatch.setattr(Crashing, "steps", 0)
        monkeypatch.setattr(Crashing, "instances", ())
        self.now = 0.0
        self.waits = []

        def sleep(seconds):
            self.waits.append(seconds)
            self.now += seconds

        monkeypatch.setattr(episodes.time, "sleep", sleep)
        monkeypatch.setattr(episodes.time, "monotonic", lambda: self.now)

    def make(self, monkeypatch, crashes, **kwargs):
        monkeypatch.setattr(Crashing, "crashes", crashes)
        kwargs = {"exceptions": OSError, "window": 100, "maxfails": 2, "wait": 5, **kwargs}
        return wrappers.CheckSpaces(wrappers.RestartOnException(Crashing, **kwargs))

    def test_goes_on_with_a_clean_episode_and_counts(self, monkeypatch, caplog):
        env = self.make(monkeypatch, {4})
        seen = [env.step(RESET)] + [env.step(ACTION_IN_BOUNDS) for _ in range(5)]
        assert flags(seen) == "F..F.."
        assert [int(obs["count"]) for obs in seen] == [0, 1, 2, 0, 1, 2]
        assert [int(obs["log/restarts"]) for obs in seen] == [0, 0, 0, 1, 1, 1]
        assert float(seen[3]["reward"]) == 0
        assert [env.closed for env in Crashing.instances] == [1, 0]
        assert "crash 4" in caplog.text

    def test_waits_longer_after_each_failure_and_gives_up(self, monkeypatch):
        env = self.make(monkeypatch, {2, 3, 4, 5}, maxfails=3)
        env.step(RESET)
        with pytest.raises(OSError, match="crash 5"):
            env.step(ACTION_IN_BOUNDS)
        assert self.waits == [5, 10, 20]
        env.close()
        assert [env.closed for env in Crashing.instances] == [1, 1, 1, 1]

    def test_failures_are_forgotten_after_the_window(self, monkeypatch):
        env = self.make(monkeypatch, set(range(3, 60, 5)), maxfails=1, wait=1)
        obs = env.step(RESET)
        for _ in range(40):
            self.now += 50
            obs = env.step(ACTION_IN_BOUNDS)
        assert int(obs["log/restarts"]) == len(self.waits) > 5
        assert set(self.waits) == {1}

    def test_other_errors_are_raised(self, monkeypatch):
        env = self.make(monkeypatch, {2}, exceptions=(KeyError, ValueError))
        env.step(RESET)
        with pytest.raises(OSError, match="crash 2"):
            env.step(ACTION_IN_BOUNDS)

    def test_revives_invalid_observations_when_checked_inside(self):
        made = []

        def make():
            made.append(Broken(lambda obs: {**obs, "echo": np.zeros(3)} if len(made) < 2 else obs))
            return wrappers.CheckSpaces(made[-1])

        env = wrappers.RestartOnException(make, SpaceError)
        obs = env.step(RESET)
        assert int(obs["log/restarts"]) == 1
        assert obs["echo"].shape == (2,)


ACTION_IN_BOUNDS = {"action": np.array([0.5, -0.5], np.float32), "reset": np.bool_(False)}


def test_wrappers_show_attributes_of_the_environment():
    env = wrappers.ClipAction(wrappers.TimeLimit(CountingEnv(7), 3), "action")
    assert env.length == 7
    assert "ClipAction(TimeLimit(" in repr(env)
    with pytest.raises(AttributeError):
        _ = env.no_such_thing
    with pytest.raises(AttributeError):
        _ = env._act
    env.close()
    assert env.closed == 1
