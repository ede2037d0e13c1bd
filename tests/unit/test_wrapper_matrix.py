"""Action repeat, time limit, frame pooling and life loss are alike in episodes 1, 2 and 3."""

import types

import numpy as np
import pytest
from counting_env import CountingEnv, flags, play

from embodied.core.wrappers import ActionRepeat, TimeLimit
from embodied.envs import atari

# CountingEnv pays the number of the step. Per case: wrappers, flags and rewards of an episode;
# F is the first step, L a last and T a terminal one.
WRAPPED = {
    "plain": (lambda: CountingEnv(4), "F...L", [0, 1, 2, 3, 4]),
    "terminal": (lambda: CountingEnv(4, terminal=True), "F...T", [0, 1, 2, 3, 4]),
    "repeat": (lambda: ActionRepeat(CountingEnv(4), 2), "F.L", [0, 3, 7]),
    "repeat beyond the end": (
        lambda: ActionRepeat(CountingEnv(4, terminal=True), 3),
        "F.T",
        [0, 6, 4],
    ),
    "limit": (lambda: TimeLimit(CountingEnv(9), 3), "F..L", [0, 1, 2, 3]),
    "limit at the end": (
        lambda: TimeLimit(CountingEnv(4, terminal=True), 4),
        "F...T",
        [0, 1, 2, 3, 4],
    ),
    "limit beyond the end": (
        lambda: TimeLimit(CountingEnv(4, terminal=True), 9),
        "F...T",
        [0, 1, 2, 3, 4],
    ),
    "limit of actions": (
        lambda: TimeLimit(ActionRepeat(CountingEnv(9), 2), 3),
        "F..L",
        [0, 3, 7, 11],
    ),
    "limit of frames": (lambda: ActionRepeat(TimeLimit(CountingEnv(9), 3), 2), "F.L", [0, 3, 3]),
    "repeat of one": (lambda: ActionRepeat(CountingEnv(2), 1), "F.L", [0, 1, 2]),
    "no limit": (lambda: TimeLimit(CountingEnv(2), 0), "F.L", [0, 1, 2]),
}


@pytest.mark.parametrize("case", WRAPPED)
def test_wrappers(case):
    make, expected, rewards = WRAPPED[case]
    played = play(make(), 3)
    for episode, observations in enumerate(played, 1):
        assert flags(observations) == expected, episode
        assert [float(x["reward"]) for x in observations] == rewards, episode
    if "repeat" not in case and "actions" not in case and "frames" not in case:
        assert [int(x["count"]) for x in played[2]] == list(range(len(expected)))


class Console:
    """An Atari console of 14 frames that shows and pays their number; lives go at 5, 10 and 14."""

    def __init__(self):
        self.frame = 0

    def reset_game(self):
        self.frame = 0

    def act(self, action):
        self.frame += 1
        return self.frame

    def lives(self):
        return 3 - sum(self.frame >= lost for lost in (5, 10, 14))

    def game_over(self):
        return self.frame >= 14

    def getScreenRGB(self):
        return np.full((210, 160, 3), self.frame, np.uint8)

    def getLegalActionSet(self):
        return [types.SimpleNamespace(value=0)]

    getMinimalActionSet = getLegalActionSet


# Per case: options, and for each of three episodes its flags, rewards and pictures.
SHORT = ("F...T", [0, 10, 26, 42, 27])
GAMES = {
    "every frame": (
        {"repeat": 1, "pooling": 1},
        [("F.............T", list(range(15)), list(range(15)))] * 3,
    ),
    "max of two": ({}, [(*SHORT, [0, 4, 8, 12, 14])] * 3),
    "mean of two": ({"aggregate": "mean"}, [(*SHORT, [0, 4, 8, 12, 13])] * 3),
    "pooling of one": ({"pooling": 1}, [(*SHORT, [0, 4, 8, 12, 14])] * 3),
    "mean of all four": (
        {"pooling": 4, "aggregate": "mean"},
        [(*SHORT, [0, 2, 6, 10, 12])] * 3,
    ),
    "sign of rewards": (
        {"clip_reward": True},
        [("F...T", [0, 1, 1, 1, 1], [0, 4, 8, 12, 14])] * 3,
    ),
    "life loss discounts": (
        {"lives": "discount"},
        [("F.TTT", SHORT[1], [0, 4, 8, 12, 14])] * 3,
    ),
    "life loss ends the episode": (
        {"lives": "reset"},
        [
            ("F.T", [0, 10, 5], [0, 4, 5]),
            ("FT", [0, 34], [6, 10]),
            ("FT", [0, 39], [11, 14]),
        ],
    ),
    "time limit": ({"length": 6}, [("F.L", [0, 10, 11], [0, 4, 6])] * 3),
    "time limit with means of three": (
        {"length": 6, "repeat": 1, "pooling": 3, "aggregate": "mean"},
        [("F.....L", [0, 1, 2, 3, 4, 5, 6], [0, 0, 1, 2, 3, 4, 5])] * 3,
    ),
    "time limit after life loss": (
        {"length": 6, "lives": "discount"},
        [("F.T", [0, 10, 11], [0, 4, 6])] * 3,
    ),
}


@pytest.mark.parametrize("case", GAMES)
def test_atari(case, monkeypatch):
    pytest.importorskip("PIL")
    monkeypatch.setattr(atari, "_load", lambda name, sticky, seed: Console())
    options, expected = GAMES[case]
    env = atari.Atari("pong", gray=False, noops=0, size=(210, 160), **options)
    # Twice, as three lives make three episodes of one game.
    for round_, played in enumerate([play(env, 3, {"action": 0}), play(env, 3, {"action": 0})]):
        for episode, observations in enumerate(played):
            letters, rewards, pictures = expected[episode]
            assert flags(observations) == letters, (round_, episode)
            assert [float(x["reward"]) for x in observations] == rewards, (round_, episode)
            assert [int(x["image"].max()) for x in observations] == pictures, (round_, episode)
            ends = [bool(x["is_last"]) for x in observations]
            assert ends == [False] * (len(letters) - 1) + [True]
