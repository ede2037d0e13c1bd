import fcntl
import json
import os
import socket
import subprocess
import sys
import threading

import pytest

from embodied.run.folder_lock import FolderInUseError, FolderLock

HOLD = """
import sys, time
from embodied.run.folder_lock import FolderLock
with FolderLock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_released_at_the_end(tmp_path):
    for _ in range(2):
        with FolderLock(tmp_path):
            owner = json.loads((tmp_path / "lock.json").read_text())
            assert (owner["pid"], owner["host"]) == (os.getpid(), socket.gethostname())
        assert os.listdir(tmp_path) == []


def test_second_owner_is_refused_until_the_first_is_killed(tmp_path, holder, capsys):
    with pytest.raises(FolderInUseError, match=f"process {holder.pid} on .* --logdir"):
        FolderLock(tmp_path).__enter__()
    holder.kill()
    holder.wait()
    with FolderLock(tmp_path):
        assert json.loads((tmp_path / "lock.json").read_text())["pid"] == os.getpid()
    assert f"Taking over the folder from process {holder.pid}" in capsys.readouterr().out
    assert os.listdir(tmp_path) == []


def test_file_systems_without_locks(tmp_path, holder, monkeypatch):
    def unsupported(*args):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with pytest.raises(FolderInUseError, match=str(holder.pid)):
        FolderLock(tmp_path).__enter__()
    holder.kill()
    holder.wait()
    with FolderLock(tmp_path):
        pass


def foreign(folder):
    path = folder / "lock.json"
    path.write_text(json.dumps({"pid": os.getpid(), "host": "elsewhere", "started": 1.0}))
    return path


def test_file_of_another_host_that_nobody_touches(tmp_path):
    foreign(tmp_path)
    with FolderLock(tmp_path, beat=0.01):
        pass


def test_file_of_another_host_that_is_touched(tmp_path):
    path = foreign(tmp_path)
    done = threading.Event()

    def touch():
        while not done.wait(0.01):
            os.utime(path)

    thread = threading.Thread(target=touch)
    thread.start()
    try:
        with pytest.raises(FolderInUseError, match="on elsewhere"):
            FolderLock(tmp_path, beat=0.1).__enter__()
    finally:
        done.set()
        thread.join()


def test_file_whose_writer_was_killed(tmp_path):
    (tmp_path / "lock.json").write_text('{"pid": 1')
    with FolderLock(tmp_path):
        pass


def test_loss_of_the_folder_is_reported(tmp_path, caplog):
    folder = tmp_path / "run"
    folder.mkdir()
    lock = FolderLock(folder, beat=0.01)
    lock.__enter__()
    try:
        (folder / "lock.json").unlink()
        for _ in range(500):
            if caplog.records:
                break
            threading.Event().wait(0.01)
    finally:
        lock.__exit__(None, None, None)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
