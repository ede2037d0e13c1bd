"""One process at a time works in the folder of a run."""

import contextlib
import errno
import fcntl
import json
import logging
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any, Self

import psutil

_LOG = logging.getLogger(__name__)
_NAME = "lock.json"
_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class FolderInUseError(RuntimeError):
    """Another process works in the folder."""


class FolderLock:
    """Holds a folder as long as the context lasts.

    The file `lock.json` names process and host of the owner, holds a lock of the operating system,
    which ends with the process, and is touched every few seconds. What a process has left that was
    killed is recognised: on the same host by the lock or, where the file system has none, by the
    number and start of the process; after another host's by nobody touching the file any more.
    """

    def __init__(self, folder: str | os.PathLike[str], beat: float = 5.0) -> None:
        """Create the context manager.

        Args:
          folder: The folder, which has to exist.
          beat: Seconds between touches; a foreign file that is not touched for six times as long
            belongs to nobody.
        """
        self._path = Path(folder) / _NAME
        self._beat = beat
        self._file = -1
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._touch, name="folder-lock", daemon=True)

    def __enter__(self) -> Self:
        """Take the folder.

        Raises:
          FolderInUseError: If another process has it; the message names that process.
        """
        locked = self._open()
        owner = self._owner()
        if owner and (not locked or owner["host"] != socket.gethostname()):
            self._check_gone(owner)
        if owner:
            print(f"Taking over the folder from {_describe(owner)}, which is gone.", flush=True)
        self._write()
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Give the folder back."""
        self._closed.set()
        self._thread.join()
        with contextlib.suppress(FileNotFoundError):
            if self._is_ours():
                self._path.unlink()
        os.close(self._file)

    def _open(self) -> bool:
        """Open the file and lock it; return whether the file system has locks."""
        while True:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._refuse(self._owner())
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise
                return False
            # Between the two calls, the owner may have removed the file.
            with contextlib.suppress(FileNotFoundError):
                if self._is_ours():
                    return True
            os.close(self._file)

    def _is_ours(self) -> bool:
        """Whether the file that is open still has its name."""
        return os.path.samestat(os.fstat(self._file), os.stat(self._path))

    def _owner(self) -> dict[str, Any] | None:
        """Who has written the file; None if it is new, or its writer was killed while writing."""
        try:
            owner = json.loads(os.pread(self._file, 4096, 0))
            return {key: owner[key] for key in ("pid", "host", "started")}
        except (ValueError, KeyError, TypeError):
            return None

    def _check_gone(self, owner: dict[str, Any]) -> None:
        if owner["host"] == socket.gethostname():
            if _started(owner["pid"]) == owner["started"]:
                self._refuse(owner)
            return
        print(f"Waiting whether {_describe(owner)} is still at work here ...", flush=True)
        touched = self._path.stat().st_mtime_ns
        for _ in range(6):
            time.sleep(self._beat)
            if self._path.stat().st_mtime_ns != touched:
                self._refuse(owner)

    def _refuse(self, owner: dict[str, Any] | None) -> None:
        os.close(self._file)
        raise FolderInUseError(
            f"{_describe(owner)} is at work in {self._path.parent}; wait for it or end it, or "
            "choose another folder with --logdir."
        )

    def _write(self) -> None:
        owner = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "started": _started(os.getpid()),
        }
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, json.dumps(owner).encode(), 0)

    def _touch(self) -> None:
        warned = False
        while not self._closed.wait(self._beat):
            try:
                if self._is_ours():
                    os.utime(self._path)
                    warned = False
                    continue
                problem = "another process has taken it over"
            except OSError as error:
                problem = str(error)
            if not warned:
                warned = True
                _LOG.warning(
                    "The lock of the run's folder is lost, %s: another run may start there now.",
                    problem,
                )


def _started(pid: int) -> float | None:
    """When a process of this host started, None if there is none."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return None


def _describe(owner: dict[str, Any] | None) -> str:
    return f"process {owner['pid']} on {owner['host']}" if owner else "Another process"
