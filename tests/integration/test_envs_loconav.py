"""Mazes with dm_control's bodies for real."""

import numpy as np
import pytest

from embodied.envs import gl, registry
from embodied.envs.check import check
from embodied.envs.loconav import MAZES

pytest.importorskip("dm_control")
pytestmark = pytest.mark.skipif(
    gl.choose_backend(pictures=True) == gl.DISABLED, reason="no OpenGL backend works here"
)


def play(env, steps):
    size = env.act_space["action"].shape
    action = np.zeros(size, np.float32)
    return [env.step({"action": action, "reset": step == 0}) for step in range(steps)]


@pytest.mark.slow
@pytest.mark.parametrize("task", ["ant_maze_s"])
def test_contract_and_time_limit(task):
    env = registry.make(f"loconav_{task}", {"length": 6, "size": (16, 24)})
    report = check(env, steps=30)
    assert report.violations == {}
    assert set(report.lengths) == {6}
    assert report.terminals == 0
    assert env.obs_space["image"].shape == (16, 24, 3)
    assert not any(0 in space.shape for space in env.obs_space.values())
    env.close()


@pytest.mark.slow
def test_goal_pays_once_and_is_terminal():
    env = registry.make("loconav_ant_maze_m", {"size": (16, 16)}, seed=1)
    for _ in range(2):
        play(env, 2)
        maze = env._maze
        goal = np.array(maze.task._target_position)
        maze.task._walker.set_pose(maze.physics, goal)
        maze.physics.forward()
        obs = [env.step({"action": np.zeros(8, np.float32), "reset": False})]
        while not obs[-1]["is_last"]:
            assert len(obs) < 10
            obs.append(env.step({"action": np.zeros(8, np.float32), "reset": False}))
        assert obs[-1]["is_terminal"]
        assert sum(float(x["reward"]) for x in obs) == 1


@pytest.mark.slow
def test_seeds_decide_start_and_goal():
    def start(seed):
        env = registry.make("loconav_ant_maze_l", {"size": (16, 16)}, seed=seed)
        return play(env, 2)[-1]["image"]

    assert (start(1) == start(1)).all()
    assert (start(1) != start(2)).any()


@pytest.mark.slow
def test_other_camera():
    env = registry.make("loconav_ant_maze_s", {"size": (16, 16), "camera": 0}, seed=0)
    eyes = registry.make("loconav_ant_maze_s", {"size": (16, 16)}, seed=0)
    pictures = [play(x, 2)[-1]["image"] for x in (env, eyes)]
    assert pictures[0].shape == (16, 16, 3)
    assert (pictures[0] != pictures[1]).any()


@pytest.mark.parametrize("maze", MAZES)
def test_every_goal_can_be_reached_from_every_start(maze):
    rows = MAZES[maze].strip("\n").split("\n")
    assert len({len(row) for row in rows}) == 1
    cells = {(r, c): x for r, row in enumerate(rows) for c, x in enumerate(row)}
    edge = [
        x for (r, c), x in cells.items() if r in (0, len(rows) - 1) or c in (0, len(rows[0]) - 1)
    ]
    assert set(edge) == {"*"}
    starts = [cell for cell, x in cells.items() if x == "P"]
    assert starts
    reached, frontier = {starts[0]}, [starts[0]]
    while frontier:
        row, column = frontier.pop()
        for cell in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
            if cells[cell] != "*" and cell not in reached:
                reached.add(cell)
                frontier.append(cell)
    assert reached == {cell for cell, x in cells.items() if x != "*"}
    assert any(cells[cell] == "G" for cell in reached)
