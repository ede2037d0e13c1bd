"""Choice of the OpenGL backend, without dm_control and without a context in this process."""

import pytest

from embodied.envs import gl
from embodied.envs.errors import EnvError


@pytest.fixture
def working(monkeypatch):
    """The set of backends that the probe finds to work; the user has chosen nothing."""
    found: set[str] = set()
    monkeypatch.setattr(gl, "backend_works", lambda backend, libraries: backend in found)
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    return found


@pytest.mark.parametrize("value", ["", "egl", "osmesa", "glfw", "off"])
def test_without_pictures_nothing_is_chosen(working, value):
    working |= {"egl", "osmesa"}
    assert gl.choose_backend(False, {"MUJOCO_GL": value}) == "disable"


def test_order_of_the_backends(working):
    assert gl.choose_backend(True, {}) == "disable"
    working.add("osmesa")
    assert gl.choose_backend(True, {}) == "osmesa"
    working.add("egl")
    assert gl.choose_backend(True, {}) == "egl"


@pytest.mark.parametrize(
    ("value", "backend"),
    [
        ("osmesa", "osmesa"),
        (" OSMesa", "osmesa"),
        ("glfw", "glfw"),
        ("1", "glfw"),
        ("disabled", "disable"),
        ("0", "disable"),
        ("", "egl"),
    ],
)
def test_the_users_choice_wins(working, value, backend):
    working |= {"egl"}
    assert gl.choose_backend(True, {"MUJOCO_GL": value}) == backend


def test_unknown_choice(working):
    with pytest.raises(EnvError, match=r"'elg'.*'egl'"):
        gl.choose_backend(True, {"MUJOCO_GL": "elg"})


def test_probe_of_libraries_that_are_not_there():
    for backend in gl.LIBRARIES:
        assert not gl.backend_works(backend, ("libdoes_not_exist.so.1",))
        # A library without the functions that a backend needs.
        assert not gl.backend_works(backend, ("libc.so.6",))


def test_the_error_names_packages_and_variable(working, monkeypatch):
    with pytest.raises(gl.RenderingUnavailable) as error:
        gl.load_dm_control(pictures=True)
    for words in ("libegl1 libgl1-mesa-dri", "libosmesa6", "MUJOCO_GL", "not set"):
        assert words in str(error.value)
    monkeypatch.setenv("MUJOCO_GL", "disable")
    with pytest.raises(gl.RenderingUnavailable, match="'disable'"):
        gl.load_dm_control(pictures=True)
