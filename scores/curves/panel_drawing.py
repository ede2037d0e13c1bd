"""One panel of a figure and the strip below it that counts seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec
from matplotlib.ticker import FuncFormatter, MaxNLocator

from curves.palette import line_colour, line_dashes
from curves.panels import Curve, Panel
from curves.run import EVAL_SUFFIX

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


@dataclass(frozen=True)
class FigureOptions:
    """How a figure looks.

    Attributes:
      xlabel: Text under the figure.
      xlim: Range of the horizontal axis, None fits the data.
      ylim: Range of the vertical axis of the task panels, None fits the data.
      columns: Panels per row; 0 chooses.
      size: Width and height of a panel in inches; None makes few panels larger.
      title: Text above the figure.
      counts: Whether a strip under each panel shows the number of seeds per point.
    """

    xlabel: str = "Environment frames"
    xlim: tuple[float, float] | None = None
    ylim: tuple[float, float] | None = None
    columns: int = 0
    size: tuple[float, float] | None = None
    title: str = ""
    counts: bool = True


Styles = dict[str, dict[str, Any]]


def line_styles(labels: Sequence[str]) -> Styles:
    """Choose colour and dashes per label; an evaluation series shares its method's colour."""
    methods = list(dict.fromkeys(label.removesuffix(EVAL_SUFFIX) for label in labels))
    styles: Styles = {}
    for label in labels:
        index = methods.index(label.removesuffix(EVAL_SUFFIX))
        dashes = (3.0, 1.2) if label.endswith(EVAL_SUFFIX) else line_dashes(index)
        styles[label] = {"color": line_colour(index), "dashes": dashes or (None, None)}
    return styles


def draw_cell(
    figure: Figure,
    cell: SubplotSpec,
    panel: Panel,
    styles: Styles,
    options: FigureOptions,
    first: bool,
) -> None:
    """Draw a panel into a cell of the grid.

    Args:
      figure: Owner of the axes.
      cell: Where to draw.
      panel: What to draw.
      styles: Line style per label.
      options: Looks.
      first: Whether this is the first column, which names the strip's axis.
    """
    if not options.counts:
        axes = figure.add_subplot(cell)
        _draw_panel(figure, axes, panel, styles, options)
        _format_positions(axes, panel, options)
        return
    parts = cell.subgridspec(2, 1, height_ratios=(5, 1), hspace=0.12)
    axes, strip = figure.add_subplot(parts[0]), figure.add_subplot(parts[1])
    _draw_panel(figure, axes, panel, styles, options)
    _draw_counts(strip, panel, styles, first)
    _format_positions(axes, panel, options)
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
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_number(value)))
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
    low, high = options.xlim or (0.0, float(_last_position(panel.curves)))
    axes.set_xlim(low, high if high > low else low + 1)
    axes.xaxis.set_major_locator(MaxNLocator(3, steps=TICK_STEPS))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_number(value)))


def _last_position(curves: Sequence[Curve]) -> float:
    return max((curve.xs[np.isfinite(curve.mean)].max() for curve in curves), default=1.0)


def format_number(value: float) -> str:
    """Write a number as on an axis: 1000 -> `1000`, 250000 -> `250K`, 1.5e6 -> `1.5M`."""
    for factor, letter in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if abs(value) >= max(factor, 1e4):
            return f"{value / factor:.4g}{letter}"
    return f"{value:.4g}"
