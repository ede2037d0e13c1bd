"""Command-line flags that override the options of a config."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from embodied.core.config import Config, ConfigError, UnknownKeyError, Value, convert


class FlagError(ConfigError):
    """A command line that cannot be read; the message is one sentence meant for the user."""


@dataclasses.dataclass(frozen=True)
class Flag:
    """One flag as written: its name without dashes, its values, and all its tokens."""

    name: str
    values: tuple[str, ...]
    tokens: tuple[str, ...]


def split_flags(argv: Sequence[str]) -> list[Flag]:
    """Group a command line into flags with their values.

    A token that starts with `--` begins a flag and what follows up to the next one are its values;
    `--name=value` is complete in itself. Negative numbers are values.

    Raises:
      FlagError: If there is a value without a flag.
    """
    flags: list[Flag] = []
    open_flag: list[str] = []

    def close() -> None:
        if open_flag:
            values = tuple(open_flag[1:])
            flags.append(Flag(open_flag[0][2:], values, tuple(open_flag)))
            open_flag.clear()

    for token in argv:
        if token.startswith("--") and "=" in token:
            close()
            name, _, value = token[2:].partition("=")
            flags.append(Flag(name, (value,), (token,)))
        elif token.startswith("--") and len(token) > 2:
            close()
            open_flag.append(token)
        elif open_flag:
            open_flag.append(token)
        else:
            raise FlagError(f"'{token}' does not belong to a flag; flags are written --name value.")
    close()
    return flags


class Flags:
    r"""Reads command lines like `--batch_size 8 --logger.outputs=jsonl,scope --.*\.units 64`.

    Values get the type that the option has in the config. Lists are written `--name a b`,
    `--name a,b` or `--name=a,b`; `--name+ c` adds to the list. A name that is a regular expression
    sets every option whose whole dotted name it matches. Later flags win.

    Args:
      config: The options that can be set, with their defaults.
      **defaults: More options, for small tools: `Flags(port=5000).parse()`.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **defaults: Any) -> None:
        self._config = Config({**(config or {}), **defaults})

    def parse(self, argv: Sequence[str] | None = None) -> Config:
        """Return the config with all flags applied.

        Args:
          argv: Command line without the program's name; None for that of this process.

        Raises:
          FlagError: On a flag without value or a value without flag.
          UnknownKeyError: On an unknown flag, or a pattern that matches nothing.
          ValueTypeError: On a value of the wrong type.
        """
        return self._config.update(self.assignments(argv))

    def parse_known(self, argv: Sequence[str] | None = None) -> tuple[Config, list[str]]:
        """Apply the flags that name an option and return the tokens of all others.

        Raises:
          FlagError, ValueTypeError: As in `parse`.
        """
        known: list[str] = []
        unknown: list[str] = []
        for flag in split_flags(sys.argv[1:] if argv is None else argv):
            try:
                self._keys(flag)
            except UnknownKeyError:
                unknown += flag.tokens
            else:
                known += flag.tokens
        return self.parse(known), unknown

    def assignments(self, argv: Sequence[str] | None = None) -> dict[str, Value]:
        """List what the flags set: exact dotted names to converted values; errors as in `parse`."""
        current = self._config.flat
        changed: dict[str, Value] = {}
        for flag in split_flags(sys.argv[1:] if argv is None else argv):
            keys, append = self._keys(flag)
            if not flag.values:
                raise FlagError(
                    f"--{flag.name} has no value; write --{flag.name} VALUE (default: "
                    f"{current[keys[0]]!r})."
                )
            for key in keys:
                changed[key] = self._read(flag, key, changed.get(key, current[key]), append)
        return changed

    def _keys(self, flag: Flag) -> tuple[tuple[str, ...], bool]:
        """Which options a flag names and whether it appends to them."""
        stripped = flag.name.removesuffix("+")
        # A plus sign at the end of a pattern belongs to the pattern.
        if stripped != flag.name and re.fullmatch(r"[\w.-]*\w", stripped):
            return self._config.match(stripped), True
        return self._config.match(flag.name), False

    def _read(self, flag: Flag, key: str, current: Value, append: bool) -> Value:
        default = self._config.flat[key]
        if isinstance(default, tuple):
            parts = [part.strip() for value in flag.values for part in value.split(",")]
            added = convert(key, [part for part in parts if part], default)
            assert isinstance(current, tuple) and isinstance(added, tuple)
            return current + added if append else added
        if append:
            raise FlagError(f"--{flag.name}: '{key}' is not a list, so nothing can be added to it.")
        if len(flag.values) > 1:
            raise FlagError(
                f"--{flag.name} takes one value, got {len(flag.values)}: "
                + " ".join(repr(value) for value in flag.values)
                + "."
            )
        return convert(key, flag.values[0], default)
