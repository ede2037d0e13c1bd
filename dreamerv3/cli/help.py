"""The texts of `--help`, `--list_configs` and `--print_config`, and the page docs/config.md.

`python -m dreamerv3.cli.help` writes that page anew; a test says when that is due.
"""

from __future__ import annotations

import pathlib
import textwrap
from collections.abc import Mapping
from typing import Any

from dreamerv3.cli import checks
from dreamerv3.cli.commands import COMMANDS
from dreamerv3.cli.presets import Presets
from embodied.core.config import Config, format_value

_USAGE = """\
Usage: python dreamerv3/main.py [COMMAND] [--configs PRESET ...] [--OPTION VALUE ...]

Trains a DreamerV3 agent. For example, the control suite from joint positions with 12M parameters:

  python dreamerv3/main.py --configs dmc_proprio size12m --task dmc_walker_walk --logdir ~/logdir/1

Commands; once the package is installed, `dreamerv3` is short for `python dreamerv3/main.py`:

{commands}

Presets are applied from left to right and options last. Values are written --name VALUE or
--name=VALUE, lists --name a b or --name=a,b; --name+ c adds to a list. A name can be a regular
expression that matches whole names: --'.*\\.units' 64.

  --help          Print this text; after a command, how to use that.
  --list_configs  Print all presets and what they set.
  --list_tasks    Print the environments.
  --print_config  Print the resulting options and where each comes from, and exit.

Options with their defaults:
"""
PATH = pathlib.Path(__file__).parents[2] / "docs" / "config.md"
_HEADER = """\
# Options and presets

Written by `python -m dreamerv3.cli.help` from `configs.yaml`; change that file instead
of this one.

Every option is a flag, `--name value`, and `--help` prints the same list. A name can be a regular
expression over whole names, such as `--'.*\\.units' 128`."""
_COLUMN = 44
_WIDTH = 120


def options(presets: Presets) -> str:
    """Describe how to use the program and every option with its default and meaning."""
    names = [f"  {name:<13} {command.about}" for name, command in COMMANDS.items()]
    lines = [_USAGE.format(commands="\n".join(names))]
    section = ""
    for key, value in presets.defaults.flat.items():
        parent = key.rpartition(".")[0]
        if parent != section:
            section = parent
            lines += ["", f"{section or 'general'}: {presets.options.get(section, '')}"]
        lines += _row(f"  --{key} {format_value(value)}", meaning(presets, key))
    return "\n".join(lines)


def meaning(presets: Presets, key: str) -> str:
    """Explain an option: its comment, and the values that it may have."""
    return f"{presets.options[key]} {checks.describe_choices(key)}".strip()


def presets(presets: Presets) -> str:
    """Describe every preset with its comment and what it sets."""
    lines = ["Presets for --configs, which can be combined; later ones win.", ""]
    for name, block in presets.blocks.items():
        lines += _row(name, presets.comments[name])
        settings = [f"{k} {format_value(v)}" for k, v in flatten(block).items()]
        lines += textwrap.wrap(
            ", ".join(settings), _WIDTH, initial_indent="    ", subsequent_indent="    ",
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
    return "\n".join(lines)


def resolved(config: Config, sources: Mapping[str, str]) -> str:
    """List every option with its value and where that comes from."""
    rows = [(key, format_value(value), sources[key]) for key, value in config.flat.items()]
    widths = [min(40, max(len(row[column]) for row in rows)) for column in range(2)]
    return "\n".join(
        f"{key:<{widths[0]}}  {value:<{widths[1]}}  ({source})" for key, value, source in rows
    )


def _row(left: str, right: str) -> list[str]:
    """Two columns, the right one wrapped."""
    wrapped = textwrap.wrap(right, _WIDTH - _COLUMN) or [""]
    first = [f"{left:<{_COLUMN - 1}} {wrapped[0]}"] if len(left) < _COLUMN else [left]
    rest = wrapped[1:] if len(left) < _COLUMN else wrapped
    return [line.rstrip() for line in [*first, *(" " * _COLUMN + text for text in rest)]]


def flatten(block: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings of a preset with dotted keys, patterns as they are written."""
    flat: dict[str, Any] = {}
    for key, value in block.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def markdown(presets: Presets) -> str:
    """Describe every option with default and meaning by section, and what every preset sets."""
    lines = [_HEADER]
    for section, rows in _sections(presets).items():
        about = presets.options.get(section, "")
        lines += ["", f"## `{section}`" if section else "## General"]
        lines += ["", about] if about else []
        lines += ["", *_table_head("option", "default", "meaning"), *rows]
    lines += ["", "## Presets", "", "Presets of `--configs` stack from left to right.", ""]
    lines += _table_head("preset", "meaning", "sets")
    for name, block in presets.blocks.items():
        settings = ", ".join(f"`{k} {format_value(v)}`" for k, v in flatten(block).items())
        lines.append(_cells(f"`{name}`", presets.comments[name], settings))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the file of the checkout."""
    PATH.write_text(markdown(Presets.load()), encoding="utf-8")
    print(f"Wrote {PATH}")


def _sections(presets: Presets) -> dict[str, list[str]]:
    """Table rows of the options of each section, in the order of the file."""
    sections: dict[str, list[str]] = {}
    for key, value in presets.defaults.flat.items():
        cells = f"`{key}`", f"`{format_value(value)}`", meaning(presets, key)
        sections.setdefault(key.rpartition(".")[0], []).append(_cells(*cells))
    return sections


def _table_head(*names: str) -> list[str]:
    return [_cells(*names), _cells(*["---"] * len(names))]


def _cells(*cells: str) -> str:
    escaped = [cell.replace("|", "\\|") for cell in cells]
    return f"| {' | '.join(escaped)} |"


if __name__ == "__main__":
    main()
