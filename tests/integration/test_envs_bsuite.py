"""The behaviour suite for real."""

import numpy as np
import pytest

from embodied.envs import registry
from embodied.envs.bsuite import SETTINGS, names
from embodied.envs.check import check
from embodied.envs.errors import EnvError, UnknownTask

pytest.importorskip("bsuite")

OFFLINE = [name for name in SETTINGS if not name.startswith("mnist")]


def test_table_equals_the_package():
    from bsuite import sweep

    ours = {f"{name}/{number}" for name, count in SETTINGS.items() for number in range(count)}
    assert ours == set(sweep.SWEEP)
    assert len(names()) == len(ours) + len(SETTINGS)


@pytest.mark.parametrize("name", OFFLINE)
def test_contract(name, capsys):
    env = registry.make(f"bsuite_{name}")
    assert capsys.readouterr().out == ""
    report = check(env, steps=150)
    assert report.violations == {}
    assert "vector" in env.obs_space


def test_catch_pays_for_the_ball():
    env = registry.make("bsuite_catch/0")
    returns = []
    for _ in range(20):
        obs = env.step({"action": np.int32(1), "reset": True})
        while not obs["is_last"]:
            board = obs["vector"]
            ball, paddle = board[:-1].any(0).argmax(), board[-1].argmax()
            move = 1 + np.sign(ball - paddle)
            obs = env.step({"action": np.int32(move), "reset": False})
        assert obs["is_terminal"]
        returns.append(float(obs["reward"]))
    assert returns == [1.0] * 20


def test_short_name_is_setting_zero():
    boards = [
        registry.make(task).step({"action": np.int32(0), "reset": True})["vector"]
        for task in ("bsuite_catch", "bsuite_catch/0")
    ]
    assert (boards[0] == boards[1]).all()


@pytest.mark.parametrize("name", OFFLINE)
def test_seeds(name):
    def run(seed):
        env = registry.make(f"bsuite_{name}/3", seed=seed)
        rng = np.random.default_rng(0)
        space, seen = env.act_space["action"], []
        for step in range(60):
            reset = step == 0 or seen[-1]["is_last"]
            seen.append(env.step({"action": space.sample(rng), "reset": reset}))
        return np.stack([np.append(x["vector"], x["reward"]) for x in seen])

    if name != "deep_sea_stochastic":
        assert (run(1) == run(1)).all()
    if name in ("catch", "cartpole", "memory_len", "umbrella_length", "bandit_noise"):
        assert (run(1) != run(2)).any()


def test_own_logs(tmp_path):
    env = registry.make("bsuite_catch/3", {"results": str(tmp_path)})
    for step in range(100):
        env.step({"action": np.int32(0), "reset": step % 10 == 0})
    (path,) = tmp_path.glob("*.csv")
    lines = path.read_text().splitlines()
    assert "total_return" in lines[0]
    assert len(lines) > 2


def test_unknown_settings_and_missing_data(monkeypatch):
    with pytest.raises(UnknownTask, match="catch"):
        registry.make("bsuite_catch/99")
    from bsuite import bsuite

    def unreachable(name, settings):
        raise OSError("no network")

    monkeypatch.setattr(bsuite, "load", unreachable)
    with pytest.raises(EnvError, match="no network"):
        registry.make("bsuite_mnist/0")
