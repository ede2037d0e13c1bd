"""Writes docs/config.md, the reference of all options and presets, from configs.yaml.

`python -m dreamerv3.cli.config_reference` writes the file anew; a test says when that is due.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from dreamerv3.cli.help_text import flatten
from dreamerv3.cli.presets import Presets
from embodied.core.config import format_value

PATH = pathlib.Path(__file__).parents[2] / "docs" / "config.md"
HEADER = """\
# Options and presets

Written by `python -m dreamerv3.cli.config_reference` from `configs.yaml`; change that file instead
of this one.

Every option is a flag, `--name value`, and `--help` prints the same list. A name can be a regular
expression over whole names, such as `--'.*\\.units' 128`."""


def markdown(presets: Presets) -> str:
    """Describe every option with default and meaning by section, and what every preset sets."""
    lines = [HEADER]
    for section, rows in _sections(presets).items():
        about = presets.options.get(section, "")
        lines += ["", f"## `{section}`" if section else "## General"]
        lines += ["", about] if about else []
        lines += ["", *_table_head("option", "default", "meaning"), *rows]
    lines += ["", "## Presets", "", "Presets of `--configs` stack from left to right.", ""]
    lines += _table_head("preset", "meaning", "sets")
    for name, block in presets.blocks.items():
        settings = ", ".join(f"`{k} {format_value(v)}`" for k, v in flatten(block).items())
        lines.append(_row(f"`{name}`", presets.comments[name], settings))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the file of the checkout."""
    PATH.write_text(markdown(Presets.load()), encoding="utf-8")
    print(f"Wrote {PATH}")


def _sections(presets: Presets) -> dict[str, list[str]]:
    """Table rows of the options of each section, in the order of the file."""
    sections: dict[str, list[str]] = {}
    for key, value in presets.defaults.flat.items():
        cells = f"`{key}`", f"`{format_value(value)}`", presets.options[key]
        sections.setdefault(key.rpartition(".")[0], []).append(_row(*cells))
    return sections


def _table_head(*names: str) -> list[str]:
    return [_row(*names), _row(*["---"] * len(names))]


def _row(*cells: str) -> str:
    return f"| {' | '.join(_escape(cells))} |"


def _escape(cells: Sequence[str]) -> list[str]:
    return [cell.replace("|", "\\|") for cell in cells]


if __name__ == "__main__":
    main()
