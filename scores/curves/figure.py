"""A figure drawn with matplotlib: panels as a grid over one legend, each over a strip of counts."""

import colorsys
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec, SubplotSpec
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from scores.curves.panels import Panel
from scores.curves.runs import EVAL_SUFFIX

TITLE_SIZE = 8.5  # Points.
GLYPH_WIDTH = 0.66  # Mean width of a bold letter as a share of the font size.
STYLE: Any = {
    "font.size": 8,
    "axes.titlesize": TITLE_SIZE,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "pdf.fonttype": 42,
    "svg.hashsalt": "scores",
}
TICK_STEPS = (1, 2.5, 5, 10)
FEW_PANELS = 4
SMALL, LARGE = (1.9, 1.55), (2.8, 2.2)  # Inches per panel in a grid of many or few panels.
COLOURS = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc3311",
    "#9467bd",
    "#56b4e9",
    "#8c564b",
    "#e377c2",
    "#7f7f7f",
    "#bcbd22",
)
DASHES = ((), (5.0, 1.5), (1.5, 1.2), (6.0, 1.5, 1.5, 1.5))
GOLDEN_RATIO = 0.618033988749895


@dataclass(frozen=True)
class FigureOptions:
    """How a figure looks.

    Attributes:
      xlabel: Text under the figure.
      ylabel: Text beside it.
      xlim: Range of the horizontal axis, None fits the data.
      ylim: Range of the vertical axis of the task panels, None fits the data.
      columns: Panels per row; 0 chooses.
      size: Width and height of a panel in inches; None makes few panels larger.
      title: Text above the figure.
      counts: Whether a strip under each panel shows the number of seeds per point.
    """

    xlabel: str = "Environment frames"
    ylabel: str = "Score"
    xlim: tuple[float, float] | None = None
    ylim: tuple[float, float] | None = None
    columns: int = 0
    size: tuple[float, float] | None = None
    title: str = ""
    counts: bool = True


Styles = dict[str, dict[str, Any]]


def draw_figure(panels: Sequence[Panel], labels: Sequence[str], options: FigureOptions) -> Figure:
    """Draw the panels as a grid with one legend below.

    Args:
      panels: What to show.
      labels: All labels in the order of the legend; a method keeps its colour in all panels
        and its evaluation series has the same colour and is dashed.
      options: Looks.
    """
    columns = min(options.columns or _choose_columns(len(panels)), len(panels))
    with matplotlib.rc_context(STYLE):
        styles = line_styles(labels)
        handles = _legend_handles(panels, labels, styles)
        figure, grid = _lay_out(-(-len(panels) // columns), columns, handles, options)
        for index, panel in enumerate(panels):
            cell = grid[index // columns, index % columns]
            _draw_cell(figure, cell, panel, styles, options, first=index % columns == 0)
    return figure


def save_figure(figure: Figure, path: Path, dpi: int) -> None:
    """Write a figure; the suffix gives the format. Equal figures give equal files."""
    dates = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        figure.savefig(path, dpi=dpi, metadata=dates.get(path.suffix.lower()))


def _choose_columns(panels: int) -> int:
    """Make the grid somewhat wider than high, with few empty cells."""
    wish = max(1, round(math.sqrt(1.5 * panels)))
    choices = [columns for columns in (wish, wish + 1, wish - 1) if columns > 0]
    return min(choices, key=lambda columns: -panels % columns)


def _legend_handles(panels: Sequence[Panel], labels: Sequence[str], styles: Styles) -> list[Line2D]:
    handles = []
    for label in labels:
        found = [c.seeds.max() for p in panels for c in p.curves if c.label == label]
        if found:
            low, high = min(found), max(found)
            number = f"{high}" if low == high else f"{low}–{high}"
            text = f"{shown_label(label)} ({number} seed{'s' if high != 1 else ''})"
            handles.append(Line2D([], [], linewidth=1.6, label=text, **styles[label]))
    return handles


def shown_label(label: str) -> str:
    """Return a label for the legend; `name` is that of runs whose option `method` was not set."""
    method = label.removesuffix(EVAL_SUFFIX)
    return f"own{label[len(method) :]}" if method == "name" else label


def _lay_out(
    rows: int, columns: int, handles: list[Line2D], options: FigureOptions
) -> tuple[Figure, GridSpec]:
    """Make a figure with title, axis label and legend around an empty grid; sizes in inches."""
    panel = options.size or (SMALL if rows * columns > FEW_PANELS else LARGE)
    width = max(columns * panel[0] + 0.67, 3.2)
    longest = max(len(str(handle.get_label())) for handle in handles)
    fitting = max(1, int(width / (0.6 + 0.056 * longest)))
    lines = -(-len(handles) // fitting)
    legend = 0.2 * lines + 0.1
    top = 0.55 if options.title else 0.27
    height = rows * panel[1] + legend + top + 0.1
    figure = Figure(figsize=(width, height))
    grid = figure.add_gridspec(
        rows,
        columns,
        left=0.62 / width,
        right=1 - 0.2 / width,
        top=1 - top / height,
        bottom=(legend + 0.42) / height,
        wspace=0.26,
        hspace=0.42,
    )
    figure.supxlabel(options.xlabel, y=legend / height, va="bottom", fontsize=9)
    figure.supylabel(options.ylabel, x=0.06 / width, ha="left", fontsize=9)
    figure.legend(
        handles=handles,
        loc="lower center",
        ncols=-(-len(handles) // lines),
        frameon=False,
        borderaxespad=0.3,
    )
    if options.title:
        figure.suptitle(options.title, y=1 - 0.08 / height, va="top", fontsize=11)
    return figure, grid


def line_styles(labels: Sequence[str]) -> Styles:
    """Choose colour and dashes per label; an evaluation series shares its method's colour."""
    methods = list(dict.fromkeys(label.removesuffix(EVAL_SUFFIX) for label in labels))
    styles: Styles = {}
    for label in labels:
        index = methods.index(label.removesuffix(EVAL_SUFFIX))
        dashes = (3.0, 1.2) if label.endswith(EVAL_SUFFIX) else line_dashes(index)
        styles[label] = {"color": line_colour(index), "dashes": dashes or (None, None)}
    return styles


def line_colour(index: int) -> str:
    """Return the colour of the method with this index, `#rrggbb`.

    The first ten are told apart by people with any colour vision; further ones walk around the
    colour circle in golden-ratio steps with changing lightness and never repeat in practice.
    """
    if index < len(COLOURS):
        return COLOURS[index]
    extra = index - len(COLOURS)
    hue = (0.07 + GOLDEN_RATIO * extra) % 1.0
    lightness = (0.40, 0.62, 0.28)[extra % 3]
    channels = colorsys.hls_to_rgb(hue, lightness, 0.7)
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in channels)


def line_dashes(index: int) -> tuple[float, ...]:
    """Return the dash pattern of the method with this index; it changes every ten methods."""
    return DASHES[index // len(COLOURS) % len(DASHES)]


def _draw_cell(
    figure: Figure,
    cell: SubplotSpec,
    panel: Panel,
    styles: Styles,
    options: FigureOptions,
    first: bool,
) -> None:
    """Draw a panel into a cell of the grid; only the first column names the axis of its strip."""
    parts = cell.subgridspec(2, 1, height_ratios=(5, 1), hspace=0.12)
    axes = figure.add_subplot(parts[0] if options.counts else cell)
    _draw_panel(figure, axes, panel, styles, options)
    _format_positions(axes, panel, options)
    if options.counts:
        strip = figure.add_subplot(parts[1])
        _draw_counts(strip, panel, styles, first)
        _format_positions(strip, panel, options)
        axes.tick_params(labelbottom=False)


def _draw_panel(
    figure: Figure, axes: Axes, panel: Panel, styles: Styles, options: FigureOptions
) -> None:
    axes.set_title(
        panel.title,
        pad=4,
        fontsize=_title_size(figure.get_figwidth() * axes.get_position().width, panel.title),
        fontweight="bold" if panel.aggregate else "normal",
    )
    if panel.marker_line is not None:
        axes.axhline(panel.marker_line, color="#999999", linewidth=0.8, zorder=1)
    for curve in panel.curves:
        style = styles[curve.label]
        known = np.isfinite(curve.mean)
        axes.plot(curve.xs[known], curve.mean[known], linewidth=1.2, zorder=3, **style)
        if known.sum() == 1:
            axes.plot(curve.xs[known], curve.mean[known], "o", markersize=3, color=style["color"])
        band = known & np.isfinite(curve.low) & np.isfinite(curve.high)
        axes.fill_between(
            curve.xs,
            curve.low,
            curve.high,
            where=band,
            color=style["color"],
            alpha=0.15,
            linewidth=0,
            zorder=2,
        )
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=TICK_STEPS))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick_text(value)))
    limits = None if panel.aggregate else options.ylim
    axes.set_ylim(limits or _value_limits(panel))


def _title_size(width: float, title: str) -> float:
    """Font size in points at which a title is not much wider than a panel of `width` inches."""
    return min(TITLE_SIZE, 1.15 * 72 * width / len(title) / GLYPH_WIDTH)


def _value_limits(panel: Panel) -> tuple[float, float]:
    """Show all means, and bands as far as they stay near them.

    The standard deviation of a bounded score reaches beyond its bounds; half of the panel would
    be empty if the axis followed it.
    """
    means = np.concatenate([curve.mean for curve in panel.curves])
    low, high = np.nanmin(means), np.nanmax(means)
    if panel.marker_line is not None and high > 0.5 * panel.marker_line:
        high = max(high, panel.marker_line)
    room = 0.15 * (high - low) or 0.5
    bands = np.concatenate([bound for curve in panel.curves for bound in (curve.low, curve.high)])
    bands = bands[np.isfinite(bands)]
    lowest = max(bands.min(initial=low), low - room)
    highest = min(bands.max(initial=high), high + room)
    margin = 0.04 * (highest - lowest) or 0.5
    return float(lowest - margin), float(highest + margin)


def _draw_counts(axes: Axes, panel: Panel, styles: Styles, first: bool) -> None:
    """Draw the number of seeds per point; equal counts show as stripes in one another."""
    maxima = [int(curve.seeds.max()) for curve in panel.curves]
    most = max(maxima, default=1)
    for index, curve in enumerate(panel.curves):
        known = np.isfinite(curve.mean)
        covering = maxima[index + 1 :].count(maxima[index])  # Later lines at the same height.
        axes.plot(
            curve.xs[known],
            curve.seeds[known],
            drawstyle="steps-pre",
            linewidth=min(0.9 + 0.8 * covering, 4.0),
            solid_capstyle="butt",
            marker="o" if known.sum() == 1 else "",
            markersize=2,
            **styles[curve.label],
        )
    axes.set_ylim(0, 1.25 * most)
    axes.set_yticks([0, most])
    axes.grid(visible=False)
    if first:
        axes.set_ylabel("seeds", fontsize=7)


def _format_positions(axes: Axes, panel: Panel, options: FigureOptions) -> None:
    ends = (curve.xs[np.isfinite(curve.mean)].max() for curve in panel.curves)
    low, high = options.xlim or (0.0, float(max(ends, default=1.0)))
    axes.set_xlim(low, high if high > low else low + 1)
    axes.xaxis.set_major_locator(MaxNLocator(3, steps=TICK_STEPS))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick_text(value)))


def _tick_text(value: float) -> str:
    """Write a number as on an axis: 1000 -> `1000`, 250000 -> `250K`, 1.5e6 -> `1.5M`."""
    for factor, letter in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if abs(value) >= max(factor, 1e4):
            return f"{value / factor:.4g}{letter}"
    return f"{value:.4g}"
