"""Saves the state of a run and finds it again after any kind of end."""

import json
import logging
import math
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from embodied.core.snapshot import (
    MANIFEST,
    TEMPORARY,
    DamagedCheckpointError,
    Snapshot,
    open_snapshot,
    read_states,
    sync_folder,
    write_durably,
    write_snapshot,
)
from embodied.core.state_tree import FlatState, flatten

_LOG = logging.getLogger(__name__)
_LATEST = "latest"
_BEST, _BEST_SCORE = "best", "best.json"


class Deferred(NamedTuple):
    """A state whose object has files of its own, which are written beside the run.

    Attributes:
      state: As `Saveable.save` returns it.
      write: Writes the files; called in the writing thread, before the snapshot is complete.
    """

    state: Any
    write: Callable[[], None]


class Saveable(Protocol):
    """What can be registered: its state can be taken and given back."""

    def save(self) -> Any:
        """Return the state: nested dicts, lists and tuples of plain values and arrays.

        It may be inside of `Deferred`.
        """

    def load(self, state: Any) -> Any:
        """Continue from a state."""


class Checkpoint:
    """A directory of snapshots of registered objects.

    Every save makes a new folder. The states are taken at once, so they belong together; writing
    happens in a thread. The file `latest` names the folder to continue from and is replaced only
    when that folder is complete and on the disk. The snapshot with the best score, if there are
    scores, is kept too, and the link `best` leads to it. What cannot be written is reported as a
    warning, the run goes on, and the previous snapshot stays.

    One directory belongs to one process at a time; objects of this class are used by one thread.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        keep: int = 1,
        keep_every: int = 0,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        """Create a checkpoint; nothing is read or written yet.

        Args:
          directory: Folder of the snapshots.
          keep: Number of the last snapshots to keep.
          keep_every: Also keep the first snapshot after every so many steps; 0 for none.
          config: Options of the run, stored in the manifests.

        Raises:
          ValueError: If no snapshot would be kept.
        """
        if keep < 1 or keep_every < 0:
            raise ValueError(
                f"Got keep={keep} and keep_every={keep_every}, expected at least one snapshot to "
                "keep and a non-negative number of steps."
            )
        self.directory = Path(directory)
        self._keep = keep
        self._keep_every = keep_every
        self._config = config
        self._objects: dict[str, Saveable] = {}
        self._thread: threading.Thread | None = None
        self._problem: Exception | None = None
        self._damaged: set[Path] = set()

    def register(self, name: str, obj: Saveable) -> None:
        """Add an object to save and load under a name.

        Raises:
          ValueError: If the name is taken.
        """
        if name in self._objects:
            raise ValueError(f"Got name '{name}' twice, expected different names of objects.")
        self._objects[name] = obj

    @property
    def busy(self) -> bool:
        """Whether a snapshot is still being written."""
        return self._thread is not None and self._thread.is_alive()

    def exists(self) -> bool:
        """Whether there is a complete snapshot. Damaged ones are reported as warnings."""
        return bool(self._candidates(self.directory))

    def peek(self, path: str | os.PathLike[str] | None = None) -> Snapshot | None:
        """Return the snapshot that `load` would try first, None if none is complete."""
        place = self._place(path)
        single = (place / MANIFEST).exists()
        return open_snapshot(place) if single else next(iter(self._candidates(place, False)), None)

    def snapshots(self) -> list[Snapshot]:
        """All complete snapshots, the one to continue from first."""
        return self._candidates(self.directory)

    def best_score(self) -> float:
        """Score of the snapshot that is kept as the best, minus infinity if there is none."""
        try:
            return float(json.loads((self.directory / _BEST_SCORE).read_text())["score"])
        except (OSError, ValueError, KeyError, TypeError):
            return -math.inf

    def save(self, step: int, score: float | None = None) -> None:
        """Take the states now and write them in a thread.

        A snapshot that is still being written is waited for; see `busy`.

        Args:
          step: Step to label the snapshot with.
          score: Makes it the one that is kept as the best.

        Raises:
          TypeError: If a state holds something that cannot be saved.
          Exception: What the last save raised, unless the disk was the reason.
        """
        self.wait()
        try:
            saved = {name: obj.save() for name, obj in self._objects.items()}
            writers = [part.write for part in saved.values() if isinstance(part, Deferred)]
            states = {
                name: flatten(part.state if isinstance(part, Deferred) else part)
                for name, part in saved.items()
            }
        except OSError as error:
            self._report(step, error)
            return
        # Not a daemon: a program that ends by itself completes the snapshot first.
        self._thread = threading.Thread(
            target=self._write,
            args=(step, states, writers, score),
            name="checkpoint",
            daemon=False,
        )
        self._thread.start()

    def wait(self) -> bool:
        """Wait until the last save has ended.

        Returns:
          Whether it succeeded, or True if there was none.

        Raises:
          Exception: What the last save raised, unless the disk was the reason.
        """
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._problem is not None and not isinstance(self._problem, OSError):
            problem, self._problem = self._problem, None
            raise problem
        return self._problem is None

    def load(
        self,
        path: str | os.PathLike[str] | None = None,
        keys: Iterable[str] | None = None,
    ) -> Snapshot:
        """Give the saved states to the registered objects.

        Nothing is loaded before everything was read and checked.

        Args:
          path: A snapshot, a checkpoint directory, or a run folder that holds `ckpt`; by default
            the own directory. In a directory, the snapshot that `latest` names is taken first,
            then the others by the order in which they were completed; damaged ones are reported
            as warnings and skipped.
          keys: Names of the objects to load; by default all that are registered.

        Returns:
          The snapshot that was loaded.

        Raises:
          FileNotFoundError: If there is no snapshot.
          DamagedCheckpointError: If there are only damaged ones.
          KeyError: If the snapshot lacks an object.
        """
        self.wait()
        names = list(self._objects if keys is None else keys)
        snapshot, states = self.read(path, names)
        for name in names:
            self._objects[name].load(states[name])
        return snapshot

    def read(
        self,
        path: str | os.PathLike[str] | None = None,
        keys: Iterable[str] | None = None,
    ) -> tuple[Snapshot, dict[str, Any]]:
        """Read saved states without loading them anywhere; see `load`.

        Args:
          path: Where to look; see `load`.
          keys: Names of the objects; by default all that the snapshot holds.

        Returns:
          The snapshot and the states by name.
        """
        place = self._place(path)
        if (place / MANIFEST).exists():
            snapshot = open_snapshot(place)
            return snapshot, read_states(snapshot, snapshot.keys if keys is None else keys)
        candidates = self._candidates(place)
        for snapshot in candidates:
            try:
                return snapshot, read_states(snapshot, snapshot.keys if keys is None else keys)
            except DamagedCheckpointError as error:
                self._warn_of_damage(snapshot.path, error)
        if not candidates:
            raise FileNotFoundError(
                f"Got '{place}', expected a folder with a complete checkpoint; give a run folder, "
                "its checkpoint folder or one snapshot in it."
            )
        raise DamagedCheckpointError(
            f"Every checkpoint in {place} is damaged; move them away to start anew."
        )

    def load_or_save(self, step: int) -> bool:
        """Continue from the last snapshot, or make the first one.

        Args:
          step: Step to label the first snapshot with.

        Returns:
          Whether there was a snapshot to continue from.
        """
        self._remove_leftovers()
        if self.exists():
            self.load()
            return True
        self.save(step)
        return False

    def _write(
        self,
        step: int,
        states: Mapping[str, FlatState],
        writers: list[Callable[[], None]],
        score: float | None,
    ) -> None:
        """Body of the thread: write the snapshot, point to it, delete old ones."""
        try:
            for write in writers:
                write()
            self._remove_leftovers()
            older = self._complete_snapshots(self.directory)
            order = 1 + max(
                [snapshot.order for snapshot in older]
                + [_order_in_name(path) for path in _folders(self.directory)],
                default=0,
            )
            path = self.directory / f"{order:06d}-step{step:010d}"
            written = write_snapshot(path, states, order, step, self._config)
            temporary = self.directory / f"{TEMPORARY}{_LATEST}"
            write_durably(temporary, path.name.encode())
            os.replace(temporary, self.directory / _LATEST)
            if score is not None:
                self._point_to_best(path.name, step, score)
            sync_folder(self.directory)
            self._problem = None
            self._remove_old([*older, written])
        except Exception as error:
            self._report(step, error)

    def _point_to_best(self, name: str, step: int, score: float) -> None:
        """Replace the link to the best snapshot and its score; the old one is then like others."""
        link = self.directory / f"{TEMPORARY}{_BEST}"
        link.unlink(missing_ok=True)
        link.symlink_to(name)
        os.replace(link, self.directory / _BEST)
        noted = self.directory / f"{TEMPORARY}{_BEST_SCORE}"
        write_durably(noted, json.dumps({"score": score, "step": step}).encode())
        os.replace(noted, self.directory / _BEST_SCORE)

    def _report(self, step: int, error: Exception) -> None:
        self._problem = error
        _LOG.warning(
            "The checkpoint of step %d could not be completed, the previous one stays in use: "
            "%s: %s",
            step,
            type(error).__name__,
            error,
        )

    def _place(self, path: str | os.PathLike[str] | None) -> Path:
        """The snapshot or the checkpoint directory that a path stands for; see `load`."""
        place = self.directory if path is None else Path(path)
        inside = not (place / _LATEST).exists() and (place / "ckpt").is_dir()
        return place / "ckpt" if inside and not (place / MANIFEST).exists() else place

    def _candidates(self, directory: Path, warn: bool = True) -> list[Snapshot]:
        """Complete snapshots, the one to prefer first."""
        latest = directory / _LATEST
        preferred = latest.read_text().strip() if latest.exists() else ""
        snapshots = self._complete_snapshots(directory, warn)
        return sorted(snapshots, key=lambda s: (s.path.name == preferred, s.order), reverse=True)

    def _complete_snapshots(self, directory: Path, warn: bool = True) -> list[Snapshot]:
        snapshots: list[Snapshot] = []
        for path in _folders(directory):
            try:
                snapshots.append(open_snapshot(path))
            except DamagedCheckpointError as error:
                if warn:
                    self._warn_of_damage(path, error)
        return snapshots

    def _warn_of_damage(self, path: Path, error: DamagedCheckpointError) -> None:
        """Warn once per folder, however often the directory is looked through."""
        if path not in self._damaged:
            self._damaged.add(path)
            _LOG.warning("Skipping a damaged checkpoint: %s", error)

    def _remove_old(self, snapshots: list[Snapshot]) -> None:
        """Delete all but the last snapshots, the best, and those that `keep_every` asks for."""
        snapshots = sorted(snapshots, key=lambda snapshot: snapshot.order)
        kept = {snapshot.path for snapshot in snapshots[-self._keep :]}
        kept.add(self.directory / (self.directory / _BEST).resolve().name)
        periods: set[int] = {0}
        for snapshot in snapshots if self._keep_every else ():
            period = snapshot.step // self._keep_every
            if period not in periods:
                periods.add(period)
                kept.add(snapshot.path)
        for snapshot in snapshots:
            if snapshot.path not in kept:
                # Renamed first, so that a half-deleted folder is never taken for a damaged one.
                doomed = snapshot.path.with_name(TEMPORARY + snapshot.path.name)
                try:
                    os.rename(snapshot.path, doomed)
                    shutil.rmtree(doomed)
                except OSError as error:
                    _LOG.warning("An old checkpoint could not be deleted: %s", error)

    def _remove_leftovers(self) -> None:
        """Delete what a killed run has left half-written."""
        if not self.directory.is_dir():
            return
        for path in self.directory.glob(f"{TEMPORARY}*"):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


def _folders(directory: Path) -> list[Path]:
    if not directory.is_dir():
        return []
    paths = sorted(directory.iterdir())
    return [
        path
        for path in paths
        if path.is_dir() and path.name != _BEST and not path.name.startswith(TEMPORARY)
    ]


def _order_in_name(path: Path) -> int:
    """Number in the name of a folder, so that even a damaged one keeps its number."""
    digits = path.name.split("-")[0]
    return int(digits) if digits.isascii() and digits.isdigit() else 0
