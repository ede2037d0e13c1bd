"""Train on an environment of your own: any class with the interface of Gymnasium.

python examples/own_environment.py
"""

import gymnasium
import numpy as np

import dreamerv3


class Thermostat(gymnasium.Env):
    """Keep a room at 20 degrees while it loses heat to the outside."""

    observation_space = gymnasium.spaces.Box(-50, 50, (2,), np.float32)  # Inside, outside.
    action_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)  # Power of the heating.

    def __init__(self, length=50):
        self.length = length

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        self.inside, self.outside = self.np_random.uniform([5, -10], [25, 10])
        return self.observe(), {}

    def step(self, action):
        self.inside += 4 * float(action[0]) + 0.1 * (self.outside - self.inside)
        self.count += 1
        reward = 1 - min(abs(self.inside - 20) / 10, 1)
        return self.observe(), reward, False, self.count == self.length, {}

    def observe(self):
        return np.array([self.inside, self.outside], np.float32)


def main(folder="~/logdir/own_environment", steps=10_000, options=None):
    """Train and evaluate; the class needs no import path, so this works in a notebook, too."""
    run = dreamerv3.train(
        Thermostat,  # To pass arguments: lambda: Thermostat(length=100)
        presets="size1m",
        steps=steps,
        logdir=folder,
        options={"run.envs": 4, "run.train_ratio": 128, **(options or {})},
    )
    scores = dreamerv3.evaluate(run.logdir, episodes=5)
    print(f"Mean score of {len(scores)} episodes: {scores.mean():.1f} of 50")
    return scores


if __name__ == "__main__":
    main()
