"""The options and presets of configs.yaml, together with the comments that explain them."""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import ruamel.yaml

from embodied.core.config import Config, ConfigError, Value
from embodied.core.suggest import hint


@dataclasses.dataclass(frozen=True)
class Presets:
    """The content of configs.yaml.

    Attributes:
      defaults: Every option with its default.
      blocks: Changes of each preset, without `defaults`; keys may be patterns.
      options: The comment of each option and section, by dotted name.
      comments: The comment of each preset.
    """

    defaults: Config
    blocks: Mapping[str, Mapping[str, Any]]
    options: Mapping[str, str]
    comments: Mapping[str, str]

    @classmethod
    @functools.cache
    def load(cls) -> Presets:
        """Read the configs.yaml of the installed package or of the checkout, once per process."""
        text = find().read_text(encoding="utf-8")
        blocks = ruamel.yaml.YAML(typ="safe", pure=True).load(text)
        commented = ruamel.yaml.YAML(typ="rt", pure=True).load(text)
        defaults = Config(blocks.pop("defaults"))
        comments = {name: _comment(commented, name) for name in blocks}
        return cls(defaults, blocks, _comments(commented["defaults"]), comments)

    @property
    def sizes(self) -> list[str]:
        """Names of the presets for the size of the networks."""
        return [name for name in self.blocks if re.fullmatch(r"size\d+m", name)]

    def changes(self, name: str) -> dict[str, Value]:
        """List what a preset sets: exact dotted names to values.

        Raises:
          ConfigError: If there is no such preset, with the closest names.
        """
        if name == "defaults":
            return {}
        if name not in self.blocks:
            raise ConfigError(
                f"Unknown preset '{name}'.{hint(name, self.blocks)} "
                f"The presets are: {', '.join(self.blocks)}."
            )
        return self.defaults.resolve(self.blocks[name])


def find() -> pathlib.Path:
    """Locate configs.yaml, which is inside an installed package but above it in a checkout."""
    package = pathlib.Path(str(importlib.resources.files("dreamerv3")))
    for path in (package / "configs.yaml", package.parent / "configs.yaml"):
        if path.is_file():
            return path
    raise ConfigError(f"configs.yaml is neither in {package} nor above it; reinstall the package.")


def _comments(node: Any, prefix: str = "") -> dict[str, str]:
    """The comments of all options and sections below a node, by dotted name."""
    found: dict[str, str] = {}
    for key, value in node.items():
        found[prefix + key] = _comment(node, key)
        if isinstance(value, Mapping):
            found.update(_comments(value, f"{prefix}{key}."))
    return found


def _comment(node: Any, key: str) -> str:
    """The comment at the end of the line that has a key, without its marker; '' if none."""
    line = node.lc.key(key)[0]
    tokens = node.ca.items.get(key) or []
    tokens = [
        token for entry in tokens for token in (entry if isinstance(entry, list) else [entry])
    ]
    for token in tokens:
        if token is not None and token.start_mark.line == line:
            return str(token.value).splitlines()[0].lstrip("# ").strip()
    return ""
