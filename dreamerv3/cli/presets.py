"""The options and presets of configs.yaml, together with the comments that explain them."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.resources
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import ruamel.yaml

from embodied.core.config import Config, ConfigError, Value, convert
from embodied.core.suggest import hint

_CHOICES = re.compile(r"(?:One|Any) of: (?P<names>[\w, ]+)\.$")


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
    def load(cls) -> Presets:
        """Read the configs.yaml of the installed package or of the checkout."""
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

    def choices(self, key: str) -> tuple[str, ...]:
        """List the values that an option can have, or its entries if it is a list; () for any."""
        found = _CHOICES.search(self.options.get(key, ""))
        return tuple(name.strip() for name in found["names"].split(",")) if found else ()

    def check_choices(self, config: Config) -> Config:
        """Check the options whose comment limits their values, and write these the same way.

        Capitals do not matter, and where `true` and `false` are choices, the other spellings of
        booleans are too.

        Raises:
          ConfigError: Naming the first wrong option, its value and those allowed.
        """
        changes: dict[str, Value] = {}
        for key, value in config.flat.items():
            allowed = self.choices(key)
            if allowed and isinstance(value, tuple):
                changes[key] = tuple(_choose(key, str(entry), allowed) for entry in value)
            elif allowed:
                changes[key] = _choose(key, str(value), allowed)
        return config.update(changes)


def find() -> pathlib.Path:
    """Locate configs.yaml, which is inside an installed package but above it in a checkout."""
    package = pathlib.Path(str(importlib.resources.files("dreamerv3")))
    for path in (package / "configs.yaml", package.parent / "configs.yaml"):
        if path.is_file():
            return path
    raise ConfigError(f"configs.yaml is neither in {package} nor above it; reinstall the package.")


def _choose(key: str, value: str, allowed: Sequence[str]) -> str:
    """Find the allowed value that was meant."""
    known = {name.lower(): name for name in allowed}
    if value.lower() not in known and {"true", "false"} <= known.keys():
        with contextlib.suppress(ConfigError):
            value = str(convert(key, value, True))
    if value.lower() not in known:
        raise ConfigError(
            f"Option '{key}' cannot be '{value}'; it is one of {', '.join(allowed)}."
            + hint(value, allowed)
        )
    return known[value.lower()]


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
            return token.value.splitlines()[0].lstrip("# ").strip()
    return ""
