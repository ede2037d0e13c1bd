"""Pin Pad: rules, reward and pictures."""

import numpy as np
import pytest

from embodied.envs.check import check
from embodied.envs.errors import UnknownTask
from embodied.envs.pinpad import COLORS, LIGHTS, REWARD, TASKS, PinPad


def walk(env, pad):
    """Walk to a pad around the others; returns the sum of rewards."""
    start = env.player
    frontier, paths = [start], {start: []}
    steps = {(-1, 0): 1, (1, 0): 2, (0, -1): 3, (0, 1): 4}
    while frontier:
        cell = frontier.pop(0)
        if env.pads.get(cell) == pad:
            return sum(move(env, action)["reward"] for action in paths[cell])
        for (row, column), action in steps.items():
            neighbour = (cell[0] + row, cell[1] + column)
            inside = 1 <= neighbour[0] <= 12 and 1 <= neighbour[1] <= 14
            allowed = env.pads.get(neighbour) in (None, pad, env.pads.get(start))
            if inside and allowed and neighbour not in paths:
                paths[neighbour] = [*paths[cell], action]
                frontier.append(neighbour)
    raise AssertionError(f"Pad {pad} cannot be reached.")


def move(env, action):
    return env.step({"action": np.int32(action), "reset": False})


def wait(env):
    for _ in range(LIGHTS):
        move(env, 0)


@pytest.mark.parametrize("task", TASKS)
def test_every_pad_is_there_and_the_order_pays(task):
    env = PinPad(task, seed=1)
    count = TASKS[task]
    pads = list(env.pads.values())
    assert [pads.count(pad) for pad in range(count)] == [4] * count
    assert len(pads) == 4 * count
    env.step({"reset": True})
    for _ in range(2):
        rewards = [walk(env, pad) for pad in range(count)]
        assert rewards == [0] * (count - 1) + [REWARD]
        wait(env)


def test_lights_follow_a_success_and_then_a_random_cell():
    starts = set()
    for seed in range(8):
        env = PinPad("three", seed=seed)
        env.step({"reset": True})
        for pad in range(3):
            walk(env, pad)
        goal, pads = env.player, list(env.pads)
        images = [move(env, 0)["image"] for _ in range(LIGHTS)]
        for index, image in enumerate(images):
            lit = index < LIGHTS - 1
            cell = next(cell for cell in pads if cell not in (goal, env.player))
            color = image[4 * cell[0], 4 * cell[1]]
            assert (color == (np.array(COLORS[env.pads[cell]]) + 255 * lit) // (1 + lit)).all()
            assert image[56:].any() == lit
        assert env.player not in env.pads
        starts.add(env.player)
        assert [walk(env, pad) for pad in range(3)] == [0, 0, REWARD]
    assert len(starts) > 4


def test_pads_do_not_count_while_they_are_lit():
    env = PinPad("three", seed=0)
    env.step({"reset": True})
    for pad in range(3):
        walk(env, pad)
    for _ in range(LIGHTS // 2):
        assert move(env, 1)["reward"] == 0
        assert move(env, 2)["reward"] == 0
    assert env.player not in env.pads


def test_wrong_order_does_not_pay_but_only_the_last_pads_count():
    env = PinPad("three", seed=0)
    env.step({"reset": True})
    assert [walk(env, pad) for pad in (1, 0, 2)] == [0, 0, 0]
    assert [walk(env, pad) for pad in (0, 1, 2)] == [0, 0, REWARD]
    wait(env)
    assert [walk(env, pad) for pad in (1, 2)] == [0, 0]
    assert [walk(env, pad) for pad in (0, 1, 2)] == [0, 0, REWARD]


def test_staying_on_a_pad_counts_once():
    env = PinPad("three", seed=0)
    env.step({"reset": True})
    walk(env, 0)
    for _ in range(5):
        move(env, 0)
    assert walk(env, 1) == 0
    assert walk(env, 2) == REWARD


def test_walls_stop_the_player():
    env = PinPad("three", seed=0)
    env.step({"reset": True})
    for action, coordinate, value in ((1, 0, 1), (2, 0, 12), (3, 1, 1), (4, 1, 14)):
        for _ in range(20):
            move(env, action)
        assert env.player[coordinate] == value


def test_picture_shows_player_pads_and_memory():
    env = PinPad("four", seed=0)
    obs = env.step({"reset": True})
    image = obs["image"]
    row, column = env.player
    cell = image[4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
    assert (cell == 255).all()
    for (row, column), pad in env.pads.items():
        assert image[4 * row, 4 * column].tolist() == list(COLORS[pad])
    assert not image[56:].any()
    walk(env, 2)
    image = move(env, 0)["image"]
    assert image[60, 1].tolist() == list(COLORS[2])


def test_starts_differ_and_follow_the_seed():
    def starts(seed):
        env = PinPad("three", seed=seed)
        found = []
        for _ in range(10):
            env.step({"reset": True})
            found.append(env.player)
            assert env.player not in env.pads
        return found

    assert starts(1) == starts(1)
    assert starts(1) != starts(2)
    assert len(set(starts(1))) > 5


def test_time_limit_and_contract():
    report = check(PinPad("five", length=7), 100)
    assert report.violations == {}
    assert set(report.lengths) == {7}
    assert report.terminals == 0
    with pytest.raises(UnknownTask, match="'three'"):
        PinPad("thre")
