"""The environment that a Python program gives: a task, or what makes environments."""

from __future__ import annotations

import contextlib
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle

from embodied.core.checkpoint import Checkpoint
from embodied.core.config import ConfigError
from embodied.envs import import_path


@contextlib.contextmanager
def named(env: str | Callable[..., Any], logdir: str) -> Iterator[str]:
    """Give the name of a task for an environment, as long as the context lasts.

    A constructor without an import path, such as a class of a notebook or a lambda, is stored in
    the folder of the run, from where worker processes and later programs load it. A start that is
    refused before it has saved anything leaves the folder as it was.

    Args:
      env: A task, an import path, or a class or function that makes environments.
      logdir: Folder of the run.

    Raises:
      ConfigError: It is none of these, or cannot be stored.
    """
    if isinstance(env, str):
        yield env
        return
    check_constructor(env)
    if path := import_path.path_of(env):
        yield path
        return
    try:
        content = cloudpickle.dumps(env)
    except Exception as error:  # Whatever the parts of the user's object raise.
        raise ConfigError(
            f"The constructor {env!r} cannot be sent to other processes ({error}); give the import "
            "path of a class in a module, package.module:Name."
        ) from error
    name = re.sub(r"\W+", "", getattr(env, "__name__", "")) or "env"
    file = pathlib.Path(logdir) / f"{name}{import_path.SUFFIX}"
    with _stored(file, content):
        yield str(file)


def check_constructor(env: Any) -> None:
    """Check that something makes environments and is not one.

    Raises:
      ConfigError: It is an environment, or cannot be called.
    """
    if isinstance(env, type) or (callable(env) and not hasattr(env, "step")):
        return
    if hasattr(env, "step"):
        raise ConfigError(
            f"Got an environment, a {type(env).__name__}, expected what makes one, as several are "
            "needed: its class, or a function such as lambda: MyEnv(size=3)."
        )
    raise ConfigError(
        f"Got {env!r} as the environment, expected the name of a task, an import path "
        "package.module:Name, or a class or function that makes environments."
    )


@contextlib.contextmanager
def _stored(file: pathlib.Path, content: bytes) -> Iterator[None]:
    checkpoint = Checkpoint(file.parent / "ckpt")
    begun_at = checkpoint.peek()
    before = file.read_bytes() if file.is_file() else None
    new = [folder for folder in (file.parent, *file.parent.parents) if not folder.exists()]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    except OSError as error:
        raise ConfigError(
            f"Cannot write to {file.parent} ({error.strerror}): make room or choose another logdir."
        ) from error
    try:
        yield
    except Exception as error:
        from dreamerv3.cli.launch import REFUSALS  # With JAX, which a bad option need not wait for.

        # A run that has saved something needs its environment to continue.
        if not isinstance(error, REFUSALS) or checkpoint.peek() != begun_at:
            raise
        file.unlink() if before is None else file.write_bytes(before)
        for folder in new:
            with contextlib.suppress(OSError):  # Something else is in it.
                folder.rmdir()
        raise
