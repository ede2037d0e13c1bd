"""Finds the folder of a finished run and takes its options over."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Mapping

from embodied.core.config import Config, ConfigError, Value
from embodied.core.snapshot import MANIFEST

CONFIG = "config.yaml"

#: Options that belong to a run itself and not to the agent that it has made.
OWN = (
    "logdir", "script", "replica", "replicas", "jax.coordinator_address",
    "run.from_checkpoint", "run.from_checkpoint_regex",
)  # fmt: skip


def find_run(path: str) -> pathlib.Path:
    """Locate the folder of a run from that folder, its `ckpt` folder or one checkpoint.

    Returns:
      The folder that has a config, or the given one if none has.

    Raises:
      ConfigError: If there is no checkpoint.
    """
    place = pathlib.Path(path).expanduser().absolute()
    if not any(any(place.glob(f"{prefix}{MANIFEST}")) for prefix in ("", "*/", "ckpt/*/")):
        raise ConfigError(
            f"'{path}' has no checkpoint; give the folder of a run, its 'ckpt' folder or one "
            "checkpoint in it."
        )
    for folder in (place, place.parent, place.parent.parent):
        if (folder / CONFIG).is_file():
            return folder
    return place


def saved_options(folder: pathlib.Path) -> dict[str, Value]:
    """Read the options of a run, by dotted name; none if its config is not there."""
    options: dict[str, Value] = {}
    with contextlib.suppress(FileNotFoundError):
        options = Config.load(folder / CONFIG).flat
    return {key: value for key, value in options.items() if key not in OWN}


def adopt(
    defaults: Config, options: Mapping[str, Value], open_sections: tuple[str, ...]
) -> tuple[Config, list[str]]:
    """Put the options of a run over the defaults.

    Args:
      defaults: All options that exist.
      options: Options of the run.
      open_sections: Sections that may have more options than the defaults.

    Returns:
      The config, and the options that no longer exist.
    """
    more = {k: v for k, v in options.items() if k not in defaults and k.startswith(open_sections)}
    config = Config({**defaults.flat, **more}) if more else defaults
    unknown = sorted(options.keys() - config.flat.keys())
    known = {key: value for key, value in options.items() if key in config.flat}
    return config.update(known), unknown
