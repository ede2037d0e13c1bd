"""Atari games for real: protocol, pooling, lives, limits and seeds."""

import numpy as np
import pytest

from embodied.envs import atari_games, registry
from embodied.envs.atari import FIRE
from embodied.envs.check import check
from embodied.envs.errors import UnknownOption

ale_py = pytest.importorskip("ale_py")

PLAIN = {"sticky": False, "noops": 0, "gray": False, "size": (210, 160)}


def play(env, steps, seed=0):
    """Observations under random actions, resetting when an episode ends."""
    rng = np.random.default_rng(seed)
    space = env.act_space["action"]
    seen = []
    for step in range(steps):
        reset = step == 0 or seen[-1]["is_last"]
        seen.append(env.step({"action": space.sample(rng), "reset": reset}))
    return seen


def test_names_are_those_of_the_package():
    from ale_py import roms

    assert {*atari_games.BENCHMARK, *atari_games.OTHERS} == set(roms.get_all_rom_ids())
    assert len(atari_games.BENCHMARK) == 57
    assert set(atari_games.ALIASES.values()) <= set(atari_games.BENCHMARK)


@pytest.mark.parametrize("task", ["atari_pong", "atari_breakout", "atari100k_james_bond"])
def test_contract(task):
    assert check(registry.make(task), steps=200).violations == {}


@pytest.mark.slow
@pytest.mark.parametrize("task", atari_games.names()[::20])
def test_games(task):
    assert check(registry.make(f"atari_{task}"), steps=100).violations == {}


def test_spaces():
    env = registry.make("atari_pong", {"size": (96, 80)})
    assert env.obs_space["image"].shape == (96, 80, 1)
    assert env.act_space["action"].classes == 18
    env = registry.make("atari_pong", {"gray": False, "actions": "needed"})
    assert env.obs_space["image"].shape == (84, 84, 3)
    assert env.act_space["action"].classes == 6
    for name, value in (("actions", "al"), ("lives", "lost"), ("resize", "pilow")):
        with pytest.raises(UnknownOption, match=repr(value)):
            registry.make("atari_pong", {name: value})


@pytest.mark.parametrize(
    ("repeat", "pooling", "aggregate"),
    [(4, 2, "max"), pytest.param(1, 3, "mean", marks=pytest.mark.slow)],
)
def test_pooling_and_rewards_against_the_console(repeat, pooling, aggregate):
    options = PLAIN | {"repeat": repeat, "pooling": pooling, "aggregate": aggregate}
    env = registry.make("atari_pong", options)
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(ale_py.roms.get_rom_path("pong"))
    rng = np.random.default_rng(0)
    total = 0.0
    for episode in range(3):
        ale.reset_game()
        frames = [ale.getScreenRGB()] * pooling
        obs = env.step({"action": np.int32(0), "reset": True})
        assert (obs["image"] == frames[0]).all(), episode
        for _ in range(800 // repeat):
            action = rng.integers(18, dtype=np.int32)
            reward = 0.0
            for _ in range(repeat):
                reward += ale.act(int(action))
                frames.append(ale.getScreenRGB())
            obs = env.step({"action": action, "reset": False})
            assert obs["reward"] == np.float32(reward)
            last = np.stack(frames[-pooling:])
            expected = last.max(0) if aggregate == "max" else np.rint(last.mean(0))
            assert (obs["image"] == expected).all()
            total += reward
    assert total < 0


@pytest.mark.parametrize(("length", "repeat"), [(40, 4), (42, 4), (10, 1)])
def test_time_limit_is_not_terminal_and_the_same_in_every_episode(length, repeat):
    env = registry.make("atari_pong", PLAIN | {"length": length, "repeat": repeat})
    size = -(-length // repeat) + 1
    seen = play(env, 3 * size)
    assert [step for step, x in enumerate(seen) if x["is_last"]] == [
        episode * size + size - 1 for episode in range(3)
    ]
    assert not any(x["is_terminal"] for x in seen)
    first = [x["image"] for x in seen if x["is_first"]]
    assert len(first) == 3
    assert all((image == first[0]).all() for image in first)


def lives(mode, steps=1200):
    """Number of last, terminal and restarted steps of random breakout, which has 5 lives."""
    options = {"sticky": False, "noops": 0, "size": (16, 16), "lives": mode, "autostart": True}
    seen = play(registry.make("atari_breakout", options | {"actions": "needed"}), steps)
    last = np.array([x["is_last"] for x in seen])
    terminal = np.array([x["is_terminal"] for x in seen])
    return last, terminal


@pytest.mark.slow
def test_lives():
    last, terminal = lives("unused")
    games = last.sum()
    assert games >= 3
    assert (last == terminal).all()
    last, terminal = lives("discount")
    assert last.sum() >= 3
    assert terminal[last].all()
    ends = np.flatnonzero(last)
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        assert terminal[start + 1 : end + 1].sum() == 5
    last, terminal = lives("reset")
    assert (last == terminal).all()
    assert last.sum() >= 5 * 3


@pytest.mark.slow
def test_life_loss_continues_the_game():
    options = {"sticky": False, "noops": 0, "lives": "reset", "autostart": True}
    env = registry.make("atari_breakout", PLAIN | options)
    seen = play(env, 1500)
    first = [x["image"][:16] for x in seen if x["is_first"]]
    # The top of the screen counts the lives: it only is as at the start after every fifth loss.
    same = [bool((image == first[0]).all()) for image in first]
    assert len(same) > 6
    assert same[0]
    assert not any(same[1:5])


def test_autostart_serves_the_ball():
    options = PLAIN | {"actions": "needed"}
    images = []
    for autostart in (False, True):
        env = registry.make("atari_breakout", options | {"autostart": autostart})
        env.step({"action": np.int32(0), "reset": True})
        for _ in range(3):
            obs = env.step({"action": np.int32(0), "reset": False})
        images.append(obs["image"])
    assert (images[0] != images[1]).any()
    assert FIRE == 1


def test_clipped_rewards():
    clipped = play(registry.make("atari_ms_pacman", {"clip_reward": True}, seed=1), 300)
    plain = play(registry.make("atari_ms_pacman", seed=1), 300)
    assert {float(x["reward"]) for x in clipped} == {0, 1}
    assert max(float(x["reward"]) for x in plain) >= 10
    assert all((a["reward"] > 0) == (b["reward"] > 0) for a, b in zip(clipped, plain, strict=True))


@pytest.mark.slow
def test_seeds_and_idle_frames():
    def run(seed, **options):
        env = registry.make("atari_pong", {"size": (16, 16), **options}, seed=seed)
        return np.stack([x["image"] for x in play(env, 100)])

    assert (run(1) == run(1)).all()
    assert (run(1) != run(2)).any()
    quiet = {"sticky": False, "noops": 0}
    assert (run(1, **quiet) == run(2, **quiet)).all()


def test_gray_is_luminance_and_both_libraries_scale_alike():
    pytest.importorskip("cv2")
    color = play(registry.make("atari_pong", PLAIN), 5)[-1]["image"]
    gray = play(registry.make("atari_pong", PLAIN | {"gray": True}), 5)[-1]["image"]
    expected = color @ np.array([0.299, 0.587, 0.114])
    assert np.abs(gray[..., 0] - expected).max() <= 0.51
    small = [
        play(registry.make("atari_pong", PLAIN | {"size": (42, 40), "resize": x}), 5)[-1]["image"]
        for x in ("pillow", "opencv")
    ]
    assert small[0].shape == small[1].shape == (42, 40, 3)
    assert np.abs(small[0].astype(float) - small[1]).mean() < 5
