"""Compares stored steps with what a run will store and read, before anything is compiled."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping

from embodied.core.config import Config, ConfigError
from embodied.core.replay.folder import stored_difference
from embodied.core.replay.schema import Schema
from embodied.core.space import Space
from embodied.run.offline import replay_folder
from embodied.run.setup import UNSTORED

Spaces = Mapping[str, Space]


def check_keys(obs_space: Spaces, act_space: Spaces, ext_space: Spaces) -> dict[str, Space]:
    """Put together what a stored step consists of.

    Args:
      obs_space: Spaces of the observations.
      act_space: Spaces of the actions.
      ext_space: Spaces of what the agent stores besides them.

    Raises:
      ConfigError: Two of them have a key in common, or an environment has one that has another
        meaning in a batch.
    """
    groups = {"an observation": obs_space, "an action": act_space, "stored by the agent": ext_space}
    merged: dict[str, Space] = {}
    meanings = dict.fromkeys(UNSTORED, "a key of the program")
    for meaning, spaces in groups.items():
        for key, space in spaces.items():
            if spaces is ext_space and key in UNSTORED:
                continue
            if key in meanings:
                raise ConfigError(
                    f"The key '{key}' is {meaning} and also {meanings[key]}, of which only one "
                    "could be stored; give it another name in the environment."
                )
            meanings[key] = meaning
            merged[key] = space
    return merged


def check_stored(config: Config, obs_space: Spaces, act_space: Spaces, ext_space: Spaces) -> None:
    """Check that the steps which the run finds are such as it stores; floats may differ in width.

    Args:
      config: The whole config.
      obs_space: Spaces of the observations.
      act_space: Spaces of the actions.
      ext_space: Spaces of what the agent stores besides them.

    Raises:
      ConfigError: They are not; names the folder and the difference.
    """
    schema = Schema.from_spaces(check_keys(obs_space, act_space, ext_space))
    for folder in _folders(config):
        # What only learns does not mind further keys.
        difference = stored_difference(folder, schema, more=config.script == "offline")
        if difference is None:
            continue
        zeros = ""
        if config.replay_context and any(
            f"'{key}': got nothing" in difference for key in ext_space
        ):
            zeros = ", or --replay_context 0, which starts sequences from zeros without latents"
        raise ConfigError(
            f"The steps stored in {folder} are not those of this task and agent ({difference}); "
            f"take another folder, or the options that they were collected with{zeros}."
        )


def _folders(config: Config) -> Iterator[pathlib.Path]:
    """Folders of chunks that the script reads or adds to."""
    if config.script == "offline":
        yield replay_folder(config.run.from_replay)
    yield pathlib.Path(config.logdir) / "replay"
    if config.script == "train_eval":
        yield pathlib.Path(config.logdir) / "eval_replay"
