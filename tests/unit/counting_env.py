"""Environments of known behaviour for the tests of wrappers and driver."""

import numpy as np

from embodied.core.interfaces import Env
from embodied.core.space import Space


class CountingEnv(Env):
    """Observes the number of steps of the episode, the episode, and the action that led there.

    The reward is the count. Episodes end after `length` steps, terminally if asked for.
    """

    def __init__(self, length=5, terminal=False, low=-1.0, high=1.0, shape=(2,)):
        self.length = length
        self.terminal = terminal
        self.count = 0
        self.episode = -1
        self.done = True
        self.received = []
        self.closed = 0
        self._act = Space(np.float32, shape, low, high)

    @property
    def obs_space(self):
        return {
            "count": Space(np.int32, (), 0),
            "episode": Space(np.int32, (), 0),
            "echo": Space(np.float32, self._act.shape),
            "reward": Space(np.float32),
            "is_first": Space(bool),
            "is_last": Space(bool),
            "is_terminal": Space(bool),
        }

    @property
    def act_space(self):
        return {"action": self._act, "reset": Space(bool)}

    def step(self, action):
        self.received.append({key: np.array(value) for key, value in action.items()})
        first = bool(action["reset"]) or self.done
        self.episode += first
        self.count = 0 if first else self.count + 1
        self.done = self.count >= self.length
        return {
            "count": np.int32(self.count),
            "episode": np.int32(self.episode),
            "echo": np.zeros_like(action["action"]) if first else np.array(action["action"]),
            "reward": np.float32(self.count),
            "is_first": np.bool_(first),
            "is_last": np.bool_(self.done),
            "is_terminal": np.bool_(self.done and self.terminal),
        }

    def close(self):
        self.closed += 1

    def save(self):
        return {"count": self.count, "episode": self.episode, "done": self.done}

    def load(self, state):
        self.count, self.episode, self.done = state["count"], state["episode"], state["done"]


def play(env, episodes, action=None, limit=1000):
    """Play whole episodes as the driver does; returns a list of lists of observations."""
    played = []
    reset = True
    for _ in range(limit):
        values = {
            key: space.sample(np.random.default_rng(0)) for key, space in env.act_space.items()
        }
        values.update(action or {})
        if reset:
            values = {key: np.zeros_like(value) for key, value in values.items()}
        obs = env.step({**values, "reset": np.bool_(reset)})
        if reset:
            played.append([])
        played[-1].append(obs)
        reset = bool(obs["is_last"])
        if reset and len(played) == episodes:
            return played
    raise AssertionError("The environment never ended its episodes.")


def flags(episode):
    """Summary of an episode as strings such as F..L or F..T (terminal)."""
    letters = []
    for obs in episode:
        letter = "F" if obs["is_first"] else "."
        letter = "L" if obs["is_last"] else letter
        letters.append("T" if obs["is_terminal"] else letter)
    return "".join(letters)
