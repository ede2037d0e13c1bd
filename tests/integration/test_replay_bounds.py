"""Memory and disk stay within what a full replay needs; a disk that is full."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

from embodied.core.replay import Replay, ReplaySaveError

ROOT = pathlib.Path(__file__).parents[2]
LENGTH, CAPACITY, CHUNK, WORKERS = 65, 2000, 256, 4

MEMORY_SCRIPT = """
import gc, json, pathlib, sys
import numpy as np, psutil
from embodied.core.replay import Replay, Requirements

folder, saves = pathlib.Path(sys.argv[1]), int(sys.argv[2])
replay = Replay(65, 2000, folder, chunksize=256, online=True)
process, marks = psutil.Process(), []
for count in range(15_000):
    for worker in range(4):
        step = {"count": np.int64(count), "worker": np.int64(worker),
            "is_first": np.bool_(count % 100 == 0), "is_last": np.bool_(count % 100 == 99),
            "latent": np.full(1000, count % 50, np.float32)}
        replay.add(step, worker)
    if count > 200 and count % 50 == 0:
        data = replay.sample(16)
        replay.update({"stepid": data["stepid"], "latent": data["latent"]})
    if count % saves == saves - 1:
        replay.save()
        files = len(list(folder.glob("*.npz")))
        assert files <= 2000 / 256 + 4 + 8, files
    if count % 1000 == 999:
        gc.collect()
        marks.append(process.memory_info().rss)
data = replay.sample(400)
state = replay.save()
other = Replay(65, 2000, folder, chunksize=256)
other.load(state)
needed = Requirements(replay.schema.step_bytes, 65, 2000, 256, workers=4)
print(json.dumps({"marks": marks, "ram": replay.stats()["ram_gb"] * 1024**3,
    "files": len(list(folder.glob("*.npz"))), "items": [len(replay), len(other)],
    "requirements": needed.ram_bytes,
    "disk": sum(path.stat().st_size for path in folder.iterdir()),
    "disk_bytes": needed.disk_bytes,
    "same": bool((other.sample(400)["count"] % 50 >= 0).all())}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("saves", [25])
def test_memory_and_files_are_bounded(tmp_path, saves):
    """60,000 steps through a capacity of 2,000, saved rarely or very often."""
    result = subprocess.run(
        [sys.executable, "-c", MEMORY_SCRIPT, str(tmp_path), str(saves)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert result.returncode == 0, result.stderr
    figures = json.loads(result.stdout)
    marks = figures["marks"][2:]
    # A chunk is about 1 MiB, and a few are copied while they are saved; 60,000 steps are 240 MiB.
    assert max(marks) - min(marks) < 12 * 1024**2, [mark >> 20 for mark in marks]
    half = len(marks) // 2
    assert max(marks[half:]) < max(marks[:half]) + 4 * 1024**2, [mark >> 20 for mark in marks]
    assert figures["ram"] <= figures["requirements"]
    assert figures["disk"] <= figures["disk_bytes"]
    assert figures["files"] <= CAPACITY / CHUNK + 2 * WORKERS
    assert figures["items"] == [CAPACITY, CAPACITY]


def add(replay, start, stop):
    for count in range(start, stop):
        for worker in range(WORKERS):
            replay.add(
                {
                    "count": np.int64(count),
                    "worker": np.int64(worker),
                    "is_first": np.bool_(count % 100 == 0),
                    "is_last": np.bool_(count % 100 == 99),
                    "latent": np.full(300, count, np.float32),
                },
                worker,
            )


@pytest.mark.skipif(shutil.which("mount") is None or os.geteuid() != 0, reason="needs a mount")
def test_full_disk(tmp_path):
    """A real file system without space: reported, nothing half-written, whole again later."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], check=False)
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        replay = Replay(LENGTH, None, disk / "replay", chunksize=CHUNK)
        add(replay, 0, 100)
        replay.save()
        saved = len(replay)
        add(replay, 100, 500)
        for _ in range(2):
            with pytest.raises(ReplaySaveError, match="No space left on device"):
                replay.save()
            other = Replay(LENGTH, None, disk / "replay", chunksize=CHUNK)
            other.load()
            assert len(other) >= saved
            assert not [path for path in (disk / "replay").iterdir() if path.suffix == ".tmp"]
        subprocess.run(["mount", "-o", "remount,size=50m", disk], check=True)
        replay.save()
        other = Replay(LENGTH, None, disk / "replay", chunksize=CHUNK)
        other.load()
        assert len(other) == len(replay)
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        add(replay, 500, 510)
        with pytest.raises(ReplaySaveError, match="Read-only file system"):
            replay.save()
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
        replay.save()
    finally:
        subprocess.run(["umount", disk], check=True)
