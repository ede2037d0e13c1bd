"""Every option of `configs.yaml` is read by the code that it is for (or refused by it)."""

import ast
import functools
import pathlib

import pytest

from dreamerv3.cli.presets import Presets
from embodied.envs.catalog import SUITES

ROOT = pathlib.Path(__file__).parents[2]
NETWORKS = ["embodied/jax/heads.py", "embodied/jax/layers"]

#: Where the options of a section have to be read; the longest section that fits counts.
READERS = {
    "": ["dreamerv3/cli", "dreamerv3/agent.py", "embodied/jax", "embodied/run"],
    "logger": ["dreamerv3/cli/writers.py", "dreamerv3/cli/factories.py"],
    "replay": ["dreamerv3/cli/factories.py"],
    "replay.prio": ["embodied/core/replay/prioritized.py"],
    "run": ["embodied/run", "dreamerv3/cli/factories.py", "dreamerv3/cli/scripts.py"],
    "run.usage": ["embodied/core/usage.py"],
    "eval": ["embodied/run", "dreamerv3/cli/factories.py"],
    "jax": ["embodied/jax", "dreamerv3/cli/launch.py"],
    "agent": ["dreamerv3/agent.py"],
    "agent.dyn.rssm": ["dreamerv3/rssm.py"],
    "agent.enc.simple": ["dreamerv3/encoder.py"],
    "agent.dec.simple": ["dreamerv3/decoder.py"],
    "agent.rewhead": NETWORKS,
    "agent.conhead": NETWORKS,
    "agent.policy": NETWORKS,
    "agent.value": NETWORKS,
    "agent.opt": ["embodied/jax/optimizer.py"],
    "agent.slowvalue": ["embodied/jax/slow_model.py"],
    "agent.retnorm": ["embodied/jax/normalize.py"],
    "agent.valnorm": ["embodied/jax/normalize.py"],
    "agent.advnorm": ["embodied/jax/normalize.py"],
    **{f"env.{name}": [suite.module.replace(".", "/") + ".py"] for name, suite in SUITES.items()},
    # Who makes environments in JAX takes an option of its own.
    **{
        f"env.{name}": [suite.module.replace(".", "/") + ".py", "embodied/envs/registry.py"]
        for name, suite in SUITES.items()
        if suite.pure
    },
}
#: These only say what values are possible, or list names.
IGNORED = ("checks.py", "run_folder.py", "command_line.py")


class Reads(ast.NodeVisitor):
    """Collects the names that a file takes from something: attributes, keys, and arguments."""

    def __init__(self):
        self.names = set()

    def visit_Attribute(self, node):
        if isinstance(node.ctx, ast.Load):
            self.names.add(node.attr)
        self.generic_visit(node)

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Load):
            self.names.add(node.id)

    def visit_Constant(self, node):
        if isinstance(node.value, str):
            self.names.add(node.value)


@functools.cache
def reads_of(path):
    visitor = Reads()
    visitor.visit(ast.parse(path.read_text(encoding="utf-8")))
    return visitor.names


def is_read(option):
    section, _, name = option.rpartition(".")
    while section not in READERS:
        section = section.rpartition(".")[0]
    paths = [ROOT / reader for reader in READERS[section]]
    files = [x for p in paths for x in (p.rglob("*.py") if p.is_dir() else [p])]
    return any(name in reads_of(path) for path in files if path.name not in IGNORED)


def test_every_option_is_read():
    assert [option for option in Presets.load().defaults.flat if not is_read(option)] == []


@pytest.mark.parametrize("option", ["agent.opt.lrate", "run.save_often", "env.dmc.sound", "sead"])
def test_an_option_that_nothing_reads_is_found(option):
    assert not is_read(option)
