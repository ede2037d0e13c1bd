"""The command that looks into a replay folder, as a user starts it."""

import json
import os
import pathlib
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from embodied.core.replay import Replay

ROOT = pathlib.Path(__file__).parents[2]


def run(*args):
    return subprocess.run(
        [sys.executable, "-m", "embodied.replay", *map(str, args)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
def folder(tmp_path):
    """Two workers, three episodes each of 10, 10 and 7 steps, the last one cut off."""
    replay = Replay(4, directory=tmp_path / "run" / "replay", chunksize=8)
    for count in range(27):
        for worker in range(2):
            step = {
                "reward": np.float32(count // 10 + worker),
                "is_first": np.bool_(count % 10 == 0),
                "is_last": np.bool_(count % 10 == 9),
                "image": np.full((8, 8, 3), count, np.uint8),
                "deter": np.full(3, count, ml_dtypes.bfloat16),
                "log/speed": np.float32(1),
            }
            replay.add(step, worker)
    replay.save()
    return tmp_path / "run" / "replay"


def test_inspect(folder):
    # The batch of an update that failed lies beside the replay and is not part of it.
    np.savez(folder.parent / "nonfinite-update0000000003.npz", reward=np.zeros(3))
    for path in (folder, folder.parent):
        result = run("inspect", path)
        assert result.returncode == 0 and not result.stderr
        for words in ("54 steps", "8 files", "2 streams of 2 workers", "6 episodes, 4 complete"):
            assert words in result.stdout
        assert "returns of complete episodes: mean 10.00, std 7.07, min 0.00, max 20.00" in (
            result.stdout
        )
        assert "bfloat16(3,)" in result.stdout and "192 bytes per step" in result.stdout


def test_inspect_json(folder):
    summary = json.loads(run("inspect", folder, "--json").stdout)
    assert summary["steps"] == 54 and summary["complete_episodes"] == 4
    assert summary["returns"]["mean"] == 10 and summary["lengths"]["max"] == 10
    assert summary["keys"]["image"] == {"dtype": "uint8", "shape": [8, 8, 3], "bytes": 54 * 192}
    assert "log/speed" not in summary["keys"]


def test_export(folder, tmp_path):
    output = tmp_path / "episodes"
    result = run("export", folder, output)
    assert result.returncode == 0 and "Wrote 6 episodes" in result.stdout
    names = sorted(path.name for path in output.iterdir())
    assert len(names) == 6 and sum("partial" in name for name in names) == 2
    for name in names:
        _, index, length, score = name.removesuffix(".npz").split("-")[:4]
        with np.load(output / name) as file:
            arrays = {key: file[key] for key in file.files}
        assert set(arrays) == {"reward", "is_first", "is_last", "image", "deter"}
        assert arrays["deter"].dtype == np.float32
        count = 10 * int(index) + np.arange(int(length))
        np.testing.assert_array_equal(arrays["image"][:, 0, 0, 0], count)
        np.testing.assert_array_equal(arrays["deter"][:, 1], count)
        assert arrays["reward"].sum() == float(score)
        assert arrays["is_first"].tolist() == [True] + [False] * (int(length) - 1)
    result = run("export", folder, tmp_path / "few", "--keys", "deter", "--complete", "--compress")
    assert "Wrote 4 episodes" in result.stdout
    with np.load(next((tmp_path / "few").iterdir())) as file:
        assert set(file.files) == {"reward", "is_first", "is_last", "deter"}


def test_damage_is_a_gap_between_episodes(folder):
    path = sorted(folder.iterdir())[2]
    path.write_bytes(path.read_bytes()[:100])
    result = run("inspect", folder)
    assert result.returncode == 0 and result.stderr.count("\n") == 1 and path.name in result.stderr
    assert "3 streams of 2 workers" in result.stdout
    assert "46 steps" in result.stdout


def test_what_is_no_replay_folder(tmp_path):
    for path, words in ((tmp_path / "none", "expected a folder"), (tmp_path, "replay chunks")):
        result = run("inspect", path)
        assert result.returncode == 2 and words in result.stderr
        assert "Traceback" not in result.stderr
