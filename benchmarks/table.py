"""Prints figures beside those of the public implementation, with targets.

    python benchmarks/table.py FILE [FILE ...]

The files hold the lines of JSON that the other benchmarks print. Each figure is scaled by the
yardsticks that were measured last before it, where its row says so.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import ruamel.yaml

PUBLIC = pathlib.Path(__file__).with_name("public_figures.yaml")
COLUMNS = ("", "public", "ours", "ratio", "scaled", "target", "")
MISSING = "-"


@dataclasses.dataclass(frozen=True)
class Row:
    """What is compared.

    Attributes:
      what: Description with the unit.
      figure: Name of our figure.
      public: Value of the public implementation, or arithmetic such as `29 GFLOP`.
      better: `lower` or `higher`.
      target: Ratio of ours to the public value; None for no target.
      yardstick: Name of what the ratio is scaled by; None for nothing.
    """

    what: str
    figure: str
    public: float | str
    better: str
    target: float | None = None
    yardstick: str | None = None


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A row with our figure.

    Attributes:
      public: What ours is compared with.
      ours: Our value.
      ratio: Ours to the public value.
      scaled: The ratio as it would be at the yardstick of the public value; None where unscaled.
      met: Whether the target is met; None without one.
    """

    public: float
    ours: float
    ratio: float
    scaled: float | None
    met: bool | None


def read_public(path: pathlib.Path = PUBLIC) -> tuple[list[Row], dict[str, float]]:
    """Read the rows, and the yardsticks of the machine of the public values."""
    content = ruamel.yaml.YAML(typ="safe", pure=True).load(path.read_text())
    return [Row(*values) for values in content["rows"]], content["yardsticks"]


def read_figures(lines: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Read figures by name, the last of each, with the yardsticks before it as `yardsticks`."""
    figures: dict[str, dict[str, Any]] = {}
    yardsticks: dict[str, float] = {}
    for line in lines:
        if not line.startswith("{"):
            continue
        figure = json.loads(line)
        if "/" not in figure["name"]:
            yardsticks = {**yardsticks, figure["name"]: figure["value"]}
        figures[figure["name"]] = {**figure, "yardsticks": yardsticks}
    return figures


def compare(
    row: Row, figure: Mapping[str, Any], public_yardsticks: Mapping[str, float]
) -> Comparison:
    """Compare a figure with its row.

    A machine that is half as fast by the yardstick halves a scaled duration and doubles a scaled
    rate. What is compared with the matrix rate is scaled by that already.
    """
    ours, yardstick, scaled = figure["value"], figure["yardsticks"].get(row.yardstick), None
    if isinstance(row.public, str):
        # Milliseconds, from billions of operations and their rate per second.
        rate = yardstick or public_yardsticks[str(row.yardstick)]
        public = 1000 * float(row.public.split()[0]) / rate
    else:
        public = row.public
        if yardstick:
            speed = yardstick / public_yardsticks[str(row.yardstick)]
            scaled = ours / public * (speed if row.better == "lower" else 1 / speed)
    ratio = ours / public
    judged = ratio if scaled is None else scaled
    met = None
    if row.target is not None:
        met = judged <= row.target if row.better == "lower" else judged >= row.target
    return Comparison(public, ours, ratio, scaled, met)


def table(lines: Iterable[str]) -> Iterator[str]:
    """Lay out the comparison of all rows, a line each."""
    rows, public_yardsticks = read_public()
    figures = read_figures(lines)
    cells = [COLUMNS]
    for row in rows:
        sign = {"lower": "<=", "higher": ">="}[row.better]
        target = MISSING if row.target is None else f"{sign} {row.target:g}"
        if row.figure not in figures:
            cells.append((row.what, _text(row.public), *[MISSING] * 3, target, "not measured"))
            continue
        result = compare(row, figures[row.figure], public_yardsticks)
        scaled = MISSING if result.scaled is None else f"{result.scaled:.2f}"
        met = {None: "", True: "met", False: "not met"}[result.met]
        values = (_text(result.public), _text(result.ours), f"{result.ratio:.2f}", scaled)
        cells.append((row.what, *values, target, met))
    widths = [max(len(line[column]) for line in cells) for column in range(len(COLUMNS))]
    for line in cells:
        padded = [
            text.ljust(width) if column in (0, len(COLUMNS) - 1) else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield "  ".join(padded).rstrip()
    yield ""
    for name, public in public_yardsticks.items():
        found = [x["yardsticks"][name] for x in figures.values() if name in x["yardsticks"]]
        if found:
            now = f"{min(found):.0f} to {max(found):.0f} while these were measured"
            yield f"{name}: {public:g} where the public values were measured, {now}."


def _text(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    lines = [line for path in args.files for line in path.read_text().splitlines()]
    print("\n".join(table(lines)))


if __name__ == "__main__":
    main()
