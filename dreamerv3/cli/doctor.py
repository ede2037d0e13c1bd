"""Checks whether a machine can run an experiment: `dreamerv3 doctor --configs atari`.

Takes the command line of the program itself and looks at everything that it would need: versions,
devices, OpenGL, environment suites, memory and disk. Every problem is printed with its fix.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import logging
import math
import os
import pathlib
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence

import psutil

from dreamerv3.cli import agents, command_line, factories
from embodied.core.config import Config
from embodied.core.replay.requirements import Requirements
from embodied.core.space import Space
from embodied.envs import catalog, gl, registry
from embodied.run.banner import format_bytes, replay_requirements, within_budget

REQUIRED = ("jax", "jaxlib", "numpy", "ml_dtypes", "optax", "ruamel.yaml", "cloudpickle", "psutil")
OPTIONAL = ("dm_control", "mujoco", "ale-py", "crafter", "bsuite", "gymnasium", "av", "pillow")


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line of the diagnosis.

    Attributes:
      text: What was found.
      fix: What to do about it; '' if all is well.
      needed: Whether the command line that was given needs it.
    """

    text: str
    fix: str = ""
    needed: bool = True


def main(argv: Sequence[str] | None = None) -> None:
    """Print the diagnosis for a command line.

    Args:
      argv: Command line without the program's name; None for that of this process.

    Raises:
      SystemExit: With code 1 if something is missing that the command line needs, 2 if the command
        line makes no sense.
    """
    logging.basicConfig(format="%(levelname)s: %(message)s")
    config = command_line.resolve(argv)
    problems = 0
    for title, check in CHECKS.items():
        print(f"{title}", flush=True)
        for finding in check(config):
            bad = bool(finding.fix) and finding.needed
            problems += bad
            mark = "PROBLEM" if bad else "note" if finding.fix else "ok"
            print(f"  {mark:<8} {finding.text}")
            if finding.fix:
                print(f"           -> {finding.fix}", flush=True)
    print(f"Problems: {problems}." if problems else "No problem found.")
    if problems:
        raise SystemExit(1)


def versions(config: Config) -> Iterator[Finding]:
    """Python and the packages."""
    python = f"python {platform.python_version()} on {platform.platform()}"
    old = sys.version_info < (3, 11)
    yield Finding(python, "install Python 3.11 or newer" if old else "")
    found = {}
    for name in (*REQUIRED, *OPTIONAL):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            if name in REQUIRED:
                yield Finding(f"{name} is not installed", "pip install -e .")
    yield Finding(", ".join(f"{name} {version}" for name, version in found.items()))


def devices(config: Config) -> Iterator[Finding]:
    """What JAX can compute on."""
    from embodied.jax.platform import PlatformError, choose_platform, describe_platform

    options = config.jax
    try:
        chosen = choose_platform(options.platform, prealloc=False)
    except PlatformError as error:
        yield Finding(str(error), "--jax.platform auto, or pip install -e '.[cuda]' or '.[tpu]'")
        return
    text = describe_platform(chosen, options.platform)
    unused = chosen == "cpu" and options.platform == "auto" and shutil.which("nvidia-smi")
    fix = "there is an NVIDIA driver: pip install -e '.[cuda]' for JAX to use its GPU"
    yield Finding(text, fix if unused else "", needed=False)


def graphics(config: Config) -> Iterator[Finding]:
    """OpenGL for pictures of MuJoCo."""
    value = os.environ.get(gl.VARIABLE)
    yield Finding(f"{gl.VARIABLE} is {value!r}" if value else f"{gl.VARIABLE} is not set")
    works = {name: gl.backend_works(name, files) for name, files in gl.LIBRARIES.items()}
    for name, state in works.items():
        yield Finding(f"{name} {'works' if state else 'does not work'}")
    if not any(works.values()):
        suite = registry.suite_of(config.task)
        needed = suite == "loconav" or (suite == "dmc" and config.env.dmc.image)
        fix = "install the packages 'libegl1 libgl1-mesa-dri' or 'libosmesa6'"
        yield Finding("no pictures can be drawn without a display", fix, needed)


def suites(config: Config) -> Iterator[Finding]:
    """Environment suites, and the task."""
    for name, suite in catalog.SUITES.items():
        try:
            for module in suite.requires:
                importlib.import_module(module)
        except Exception as error:  # Whatever a broken installation raises.
            fix = f"pip install -e '.[{suite.extra}]'" if suite.extra else suite.hint
            yield Finding(f"{name}: {type(error).__name__}: {error}", fix, needed=False)
        else:
            yield Finding(name)
    try:
        obs_space, act_space = factories.make_spaces(config)
    except Exception as error:
        yield Finding(f"task {config.task}: {type(error).__name__}: {error}", _task_fix(config))
    else:
        names = f"observations {', '.join(obs_space)}; actions {', '.join(act_space)}"
        yield Finding(f"task {config.task}: {names}")


def resources(config: Config) -> Iterator[Finding]:
    """Memory and disk against what the experiment needs."""
    folder = pathlib.Path(config.logdir)
    while not folder.exists():
        folder = folder.parent
    writable = os.access(folder, os.W_OK)
    fix = "" if writable else "choose another folder with --logdir"
    yield Finding(f"{folder} is {'' if writable else 'not '}writable", fix)
    memory, disk = psutil.virtual_memory().available, shutil.disk_usage(folder).free
    yield Finding(f"{format_bytes(memory)} of memory and {format_bytes(disk)} of disk are free")
    try:
        spaces, state_bytes = _agent_needs(config)
    except Exception as error:
        yield Finding(f"the agent: {type(error).__name__}: {error}", _task_fix(config))
        return
    room, own = _learning_memory(config, memory)
    fix = "" if state_bytes <= room else "a smaller preset such as size12m, or smaller observations"
    state = f"parameters and optimizer take {format_bytes(state_bytes)}"
    yield Finding(f"{state} of the {format_bytes(room)} that are free for them", fix)
    checkpoints = (config.run.keep + 1) * state_bytes
    replay = factories.make_replay(config, "replay")
    needs = replay_requirements(spaces, replay.length, replay.capacity, config.run.envs)
    needs = within_budget(needs, int(config.run.steps))
    assert needs.ram_bytes is not None and needs.disk_bytes is not None, "there is a capacity"
    fix = "" if checkpoints <= disk else "fewer --run.keep, or a smaller preset"
    yield Finding(f"checkpoints take {format_bytes(checkpoints)} of disk", fix)
    yield Finding(
        f"the replay grows to {needs.capacity:,} items: {format_bytes(needs.ram_bytes)} of memory "
        f"and {format_bytes(needs.disk_bytes)} of disk"
    )
    memory = memory if own else max(0, memory - state_bytes)
    disk = max(0, disk - checkpoints)
    problem = needs.problem(memory, disk)
    if problem:
        yield Finding(problem, f"{_smaller(needs, memory, disk)}a larger machine")


CHECKS: dict[str, Callable[[Config], Iterator[Finding]]] = {
    "Versions": versions,
    "Devices": devices,
    "Graphics": graphics,
    "Environments": suites,
    "Resources": resources,
}


def _task_fix(config: Config) -> str:
    extra = getattr(catalog.SUITES.get(registry.suite_of(config.task)), "extra", "")
    return f"pip install -e '.[{extra}]'" if extra else "see the error"


def _smaller(needs: Requirements, memory: int, disk: int) -> str:
    """Propose a capacity with which the replay fits, if there is one."""
    assert needs.steps is not None and needs.capacity is not None, "there is a capacity"
    steps = 0.8 * min(memory / needs.bytes_per_step, disk / needs.bytes_per_step)
    capacity = int(steps) - (needs.steps - needs.capacity)
    return f"--replay.size {capacity:.1e}, or " if capacity > 0 else ""


def _learning_memory(config: Config, memory: int) -> tuple[int, bool]:
    """Bytes that are free where the agent learns, and whether that is a memory of its own."""
    import jax

    from embodied.jax.memory import free_memory
    from embodied.jax.platform import PlatformError, choose_platform

    try:
        name = choose_platform(config.jax.platform, prealloc=False)
    except PlatformError:
        return memory, False
    free = None if name == "cpu" else free_memory(jax.local_devices(backend=name)[0])
    return (memory, False) if free is None else (free, True)


def _agent_needs(config: Config) -> tuple[dict[str, Space], int]:
    """Spaces of a stored step, and bytes of all parameters with those of the optimizer."""
    obs_space, act_space = factories.make_spaces(config)
    if config.random_agent:
        return {**obs_space, **act_space}, 0
    make, options = agents.load(config.agent_class).make, factories.agent_config(config)
    stored = make(obs_space, act_space, options).ext_space
    sizes = map(math.prod, factories.agent_shapes(config).values())
    return {**obs_space, **act_space, **stored}, 4 * sum(sizes)
