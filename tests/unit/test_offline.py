"""What `offline` finds out about stored steps before anything is written."""

import types

import numpy as np
import pytest

from embodied.core.replay import Replay
from embodied.core.space import Space
from embodied.run import offline
from embodied.run.options import RunOptions


@pytest.fixture
def stored(tmp_path):
    replay = Replay(length=4, capacity=100, directory=tmp_path / "stored")
    for index in range(20):
        replay.add({"image": np.zeros((8, 8, 3), np.uint8), "reward": np.float32(index)}, 0)
    replay.save()
    replay.close()
    return tmp_path / "stored"


def copy(stored, **spaces):
    replay = Replay(length=4, capacity=100, directory=stored.parent / "replay")
    run = types.SimpleNamespace(
        options=RunOptions("unused", from_replay=str(stored)),
        replay=replay,
        schedule=types.SimpleNamespace(needed=16),
        agent=types.SimpleNamespace(obs_space=spaces, ext_space={"stepid": Space(np.uint8, 20)}),
    )
    offline._copy_steps(run)
    assert not (stored.parent / "replay").exists()
    return replay


def test_steps_that_fit_are_copied(stored):
    spaces = {"image": Space(np.uint8, (8, 8, 3)), "reward": Space(np.float32)}
    assert len(copy(stored, **spaces)) == 17


@pytest.mark.parametrize(
    ("key", "space", "message"),
    [
        (
            "image",
            Space(np.uint8, (64, 64, 3)),
            r"'image': got uint8\(8, 8, 3\), expected uint8\(64, 64, 3\)",
        ),
        ("reward", Space(np.int32), r"'reward': got float32\(\), expected int32\(\)"),
        ("vector", Space(np.float32, 3), r"'vector': got nothing, expected float32\(3,\)"),
    ],
)
def test_steps_of_another_task_are_refused(stored, key, space, message):
    with pytest.raises(ValueError, match=message):
        copy(stored, **{key: space})
