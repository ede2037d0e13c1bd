"""The folder of one checkpoint: how it is written, checked and read.

A snapshot folder holds one file of raw arrays per saved object, `manifest.json` with everything
else, and `SHA256SUMS` in the format of the tool sha256sum. It is written beside its final place,
flushed to disk and renamed, so that a folder with its final name is a finished one. Reading it
never runs code: there are numbers and JSON, nothing else.
"""

import contextlib
import dataclasses
import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from embodied.core.state_tree import FlatState, dtype_from_name, dtype_name, unflatten

FORMAT = 1
MANIFEST = "manifest.json"
SUMS = "SHA256SUMS"
TEMPORARY = "tmp-"
_ALIGNMENT = 64
_PACKAGES = ("numpy", "jax", "jaxlib", "ml_dtypes", "optax", "dreamerv3-embodied")


class DamagedCheckpointError(RuntimeError):
    """A checkpoint folder is incomplete, or its content is not what was written."""


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A finished checkpoint folder.

    Attributes:
      path: The folder.
      order: Number that grows with every completed save of a checkpoint directory.
      step: Step given when saving.
      manifest: Content of `manifest.json`.
    """

    path: Path
    order: int
    step: int
    manifest: dict[str, Any]

    @property
    def keys(self) -> list[str]:
        """Names of the saved objects."""
        return list(self.manifest["objects"])


def write_snapshot(
    path: Path,
    states: Mapping[str, FlatState],
    order: int,
    step: int,
    config: Mapping[str, Any] | None,
) -> Snapshot:
    """Write a snapshot folder beside its place, flush it to disk and rename it.

    Args:
      path: The folder to make; must not exist.
      states: The states by name of the object.
      order: See `Snapshot`.
      step: See `Snapshot`.
      config: Options of the run, stored for the reader.

    Returns:
      The snapshot, without reading it again.

    Raises:
      OSError: If it cannot be written. Nothing is left behind.
    """
    temporary = path.with_name(TEMPORARY + path.name)
    try:
        temporary.mkdir(parents=True)
        sums: dict[str, str] = {}
        objects: dict[str, Any] = {}
        for number, (name, state) in enumerate(states.items()):
            filename = f"{number}-{_filename(name)}.bin"
            objects[name], sums[filename] = _write_arrays(temporary / filename, state)
        manifest = {
            "format": FORMAT,
            "order": order,
            "step": step,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "versions": package_versions(),
            "config": config,
            "objects": objects,
        }
        content = json.dumps(manifest, indent=1).encode()
        sums[MANIFEST] = hashlib.sha256(content).hexdigest()
        write_durably(temporary / MANIFEST, content)
        lines = "".join(f"{digest}  {name}\n" for name, digest in sums.items())
        write_durably(temporary / SUMS, lines.encode())
        sync_folder(temporary)
        os.rename(temporary, path)
        sync_folder(path.parent)
        return Snapshot(path, order, step, manifest)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def open_snapshot(path: Path) -> Snapshot:
    """Read the manifest of a snapshot folder and check that it is what was written.

    Raises:
      DamagedCheckpointError: If the folder is incomplete or damaged.
    """
    with _damage_as_error(path):
        content = (path / MANIFEST).read_bytes()
        if hashlib.sha256(content).hexdigest() != _read_sums(path)[MANIFEST]:
            raise DamagedCheckpointError(f"{path / MANIFEST} does not match its checksum.")
        manifest = json.loads(content)
        if manifest["format"] != FORMAT:
            raise DamagedCheckpointError(
                f"{path} has checkpoint format {manifest['format']}, expected {FORMAT}."
            )
        return Snapshot(path, int(manifest["order"]), int(manifest["step"]), manifest)


def read_states(snapshot: Snapshot, keys: Iterable[str]) -> dict[str, Any]:
    """Read the states of some objects, after checking their files.

    The arrays of one object share a buffer that belongs to nobody else; they may be changed.

    Raises:
      DamagedCheckpointError: If a file is missing or damaged.
      KeyError: If an object was not saved.
    """
    keys = list(keys)
    for key in keys:
        if key not in snapshot.manifest["objects"]:
            raise KeyError(
                f"Got key '{key}', but checkpoint {snapshot.path} holds {snapshot.keys}."
            )
    with _damage_as_error(snapshot.path):
        sums = _read_sums(snapshot.path)
        return {
            key: _read_state(snapshot.path, snapshot.manifest["objects"][key], sums) for key in keys
        }


def write_durably(path: Path, content: bytes) -> None:
    """Write a file and return when it is on the disk."""
    with path.open("wb") as file:
        file.write(content)
        _sync(file)


def sync_folder(path: Path) -> None:
    """Return when the names in a folder are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def package_versions() -> dict[str, str]:
    """Versions of Python and of the packages that results depend on."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return versions


def _write_arrays(path: Path, state: FlatState) -> tuple[dict[str, Any], str]:
    """Write the arrays one after the other; return their description and the checksum."""
    digest = hashlib.sha256()
    entries: list[dict[str, Any]] = []
    offset = 0
    with path.open("wb") as file:
        for name, array in zip(state.paths, state.arrays, strict=True):
            for part in (bytes(-offset % _ALIGNMENT), _raw_bytes(array)):
                file.write(part)
                digest.update(part)
            offset += -offset % _ALIGNMENT
            entry = {"path": name, "dtype": dtype_name(array.dtype), "shape": list(array.shape)}
            entries.append({**entry, "offset": offset})
            offset += array.nbytes
        _sync(file)
    return {"file": path.name, "arrays": entries, "tree": state.tree}, digest.hexdigest()


def _read_state(folder: Path, entry: Mapping[str, Any], sums: Mapping[str, str]) -> Any:
    path = folder / Path(entry["file"]).name
    content = np.fromfile(path, np.uint8)
    if hashlib.sha256(content.data).hexdigest() != sums[path.name]:
        raise DamagedCheckpointError(f"{path} does not match its checksum.")
    arrays = [_read_array(content, array) for array in entry["arrays"]]
    return unflatten(entry["tree"], arrays)


def _read_array(content: np.ndarray, entry: Mapping[str, Any]) -> np.ndarray:
    dtype, shape = dtype_from_name(entry["dtype"]), tuple(entry["shape"])
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    part = content[entry["offset"] : entry["offset"] + size]
    array = part.view(dtype) if size else np.empty(0, dtype)
    return array.reshape(shape).astype(dtype.newbyteorder("="), copy=False)


def _raw_bytes(array: np.ndarray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data if array.nbytes else memoryview(b"")


def _read_sums(folder: Path) -> dict[str, str]:
    lines = (folder / SUMS).read_text().splitlines()
    return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}


def _filename(name: str) -> str:
    return "".join(char if char.isalnum() or char in "-_" else "-" for char in name)


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


@contextlib.contextmanager
def _damage_as_error(path: Path) -> Iterator[None]:
    """Turn what goes wrong with a damaged folder into one kind of error."""
    try:
        yield
    except PermissionError:
        raise
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise DamagedCheckpointError(
            f"{path} is incomplete or damaged ({type(error).__name__}: {error})."
        ) from error
