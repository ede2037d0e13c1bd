"""A user's module: environments with the Gymnasium interface and actions of several kinds."""

import gymnasium
import numpy as np

spaces = gymnasium.spaces


class Choices(gymnasium.Env):
    """Observes two of three numbers to choose; each right choice pays 1."""

    action_space = spaces.MultiDiscrete([2, 5, 3])
    observation_space = spaces.MultiDiscrete([2, 5])

    def __init__(self, length=20):
        self.length = length

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self.observe(), {}

    def step(self, action):
        assert action in self.action_space
        reward = float((action[:2] == self.shown).sum())
        self.count += 1
        return self.observe(), reward, False, self.count >= self.length, {}

    def observe(self):
        self.shown = self.np_random.integers([2, 5])
        return self.shown


class Everything(gymnasium.Env):
    """Cameras of different sizes, nested observations, and actions of every kind."""

    def __init__(self, length=10):
        self.length = length
        views = {
            "front": spaces.Box(0, 255, (24, 24, 3), np.uint8),
            "wrist": spaces.Box(0, 255, (16, 24), np.uint8),
            "depth": spaces.Box(-1, 1, (16, 24, 1), np.float64),
        }
        self.observation_space = spaces.Dict(
            {
                "body": spaces.Dict({"joints": spaces.Box(-np.inf, np.inf, (3,))}),
                "mode": spaces.Discrete(3, start=5),
                "switches": spaces.MultiBinary(2),
                **views,
            }
        )
        self.action_space = spaces.Dict(
            {
                "arm": spaces.Box(np.array([0.0, -3]), np.array([1.0, 7]), dtype=np.float64),
                "gear": spaces.Discrete(4, start=-1),
                "keys": spaces.MultiDiscrete([2, 5, 3]),
                "lamps": spaces.MultiBinary(2),
                "hand": spaces.Dict({"grip": spaces.Discrete(2)}),
            }
        )

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.count = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        # Range, dtype and structure are its own, or this fails.
        assert self.action_space.contains(action), action
        assert action["arm"].dtype == np.float64
        self.count += 1
        reward = float(action["gear"] == 2)
        return self.observation_space.sample(), reward, False, self.count >= self.length, {}
