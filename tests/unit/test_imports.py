"""Importing the toolkit never imports JAX, and imports point down."""

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in ('jax', 'jaxlib', 'optax'):
            raise ImportError(f'{name} is blocked')
sys.meta_path.insert(0, Blocker())
"""
EVERYTHING = """
import embodied
for name in embodied.__all__:
    assert getattr(embodied, name) is not None, name
import embodied.run.train, embodied.envs.registry
import dreamerv3.cli.command_line, dreamerv3.cli.factories
"""
# Room: what it may import, besides itself. Environments in JAX follow a protocol in JAX.
BELOW = {
    "embodied.core": (),
    "embodied.envs": ("embodied.core", "embodied.jax.pure_env"),
    "embodied.jax": ("embodied.core",),
    "embodied.run": ("embodied.core",),
    "scores": (),
}


def test_toolkit_and_command_line_work_with_jax_blocked():
    code = BLOCKED + EVERYTHING
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_unknown_name_is_an_attribute_error():
    import embodied

    with pytest.raises(AttributeError, match="nothing_like_that"):
        _ = embodied.nothing_like_that


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("room", BELOW)
def test_imports_point_down(room):
    allowed = (room, *BELOW[room])
    for path in (ROOT / room.replace(".", "/")).rglob("*.py"):
        for name in imported(path):
            if name.split(".")[0] in ("embodied", "dreamerv3"):
                assert name.startswith(allowed), f"{path} imports {name}"
