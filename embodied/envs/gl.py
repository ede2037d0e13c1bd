"""Choice of the OpenGL backend, and the import of dm_control with it.

dm_control reads MUJOCO_GL once, when it is first imported, and without that variable tries windows
first. So the backend is decided before the import: none at all unless pictures are asked for, else
the user's MUJOCO_GL, else EGL if a context can be made, else OSMesa.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from embodied.core.suggest import hint
from embodied.envs.errors import EnvError, RenderingUnavailable

VARIABLE = "MUJOCO_GL"
DISABLED = "disable"
#: Spellings of "no rendering" that MuJoCo accepts.
OFF = ("disable", "disabled", "off", "false", "0")
#: Spellings of "a window" that MuJoCo accepts.
WINDOW = ("glfw", "on", "enable", "enabled", "true", "1")
#: File names of the shared library, per backend that works without a display.
LIBRARIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "egl": ("libEGL.so.1", "libEGL.so"),
        "osmesa": ("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so"),
    }
)
PROBE_SECONDS = 60
#: What is imported anew for another backend: dm_control, and modules that keep parts of it. The
#: package memory_maze itself stays, as it registers its environments with gym once.
REIMPORTED = re.compile(r"dm_control(\.|$)|memory_maze\.")
#: The backend with which this process has imported dm_control last, if it has.
_imported_with: list[str] = []


def choose_backend(pictures: bool, environ: Mapping[str, str] = os.environ) -> str:
    """Decide which OpenGL backend to use.

    Args:
      pictures: Whether anything will be rendered.
      environ: Where the user's MUJOCO_GL is looked up.

    Returns:
      `'egl'`, `'osmesa'`, `'glfw'` or `'disable'`; the last where nothing will be rendered, where
      the user said so, and where no backend works.

    Raises:
      EnvError: MUJOCO_GL holds none of the known names.
    """
    if not pictures:
        return DISABLED
    wanted = environ.get(VARIABLE, "").strip().lower()
    if wanted in OFF:
        return DISABLED
    if wanted in WINDOW:
        return "glfw"
    if wanted and wanted not in LIBRARIES:
        known = (*LIBRARIES, "glfw", DISABLED)
        raise EnvError(
            f"Environment variable {VARIABLE} is {wanted!r}, expected one of "
            f"{', '.join(known)}.{hint(wanted, known)}"
        )
    if wanted:
        return wanted
    for backend, libraries in LIBRARIES.items():
        if backend_works(backend, libraries):
            return backend
    return DISABLED


def backend_works(backend: str, libraries: tuple[str, ...]) -> bool:
    """Try in a process of its own whether a backend can make a context without a display.

    Args:
      backend: `'egl'` or `'osmesa'`.
      libraries: Candidate file names of its shared library.
    """
    probe = Path(__file__).with_name("gl_probe.py")
    command = [sys.executable, "-I", "-S", str(probe), backend, *libraries]
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return result.returncode == 0


def load_dm_control(pictures: bool) -> str:
    """Import dm_control's suite with the right backend.

    A process that imported dm_control without rendering imports it anew when it later makes an
    environment with pictures.

    Args:
      pictures: Whether anything will be rendered.

    Returns:
      The backend in use, as `choose_backend` names it.

    Raises:
      RenderingUnavailable: Pictures are asked for and no backend works.
    """
    backend = choose_backend(pictures)
    if pictures and backend == DISABLED:
        raise unavailable()
    try:
        with _environment({VARIABLE: backend}):
            if pictures and _imported_with != [backend]:
                # Environments that are there already keep the modules that they have.
                for name in [x for x in sys.modules if REIMPORTED.match(x)]:
                    del sys.modules[name]
            importlib.import_module("dm_control.suite")
            if pictures or not _imported_with:
                _imported_with[:] = [backend]
    except (ImportError, AttributeError, RuntimeError) as error:
        if backend == DISABLED:
            raise
        raise unavailable(error) from error
    return backend


def unavailable(
    error: Exception | None = None, environ: Mapping[str, str] = os.environ
) -> Exception:
    """Make the error for pictures that nothing here can render.

    Args:
      error: What the backend raised, if it got that far.
      environ: Where the user's MUJOCO_GL is looked up.
    """
    value = environ.get(VARIABLE)
    state = "not set" if value is None else repr(value)
    reason = f" ({type(error).__name__}: {error})" if error else ""
    return RenderingUnavailable(
        f"Pictures are asked for but no OpenGL backend works here{reason}; install the packages "
        f"'libegl1 libgl1-mesa-dri' or 'libosmesa6', or set {VARIABLE} to egl, osmesa or glfw "
        f"(it is {state})."
    )


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for a while, so that child processes inherit the user's own."""
    names = (*values, "PYOPENGL_PLATFORM")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
