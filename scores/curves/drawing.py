"""A figure: panels as a grid over one legend, drawn with matplotlib without a display."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.lines import Line2D

from curves.panel_drawing import STYLE, FigureOptions, Styles, draw_cell, line_styles
from curves.panels import Panel

matplotlib.use("Agg")

FEW_PANELS = 4
SMALL, LARGE = (1.9, 1.55), (2.8, 2.2)  # Inches per panel in a grid of many or few panels.


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
            draw_cell(figure, cell, panel, styles, options, first=index % columns == 0)
    return figure


def _lay_out(
    rows: int, columns: int, handles: list[Line2D], options: FigureOptions
) -> tuple[Figure, GridSpec]:
    """Make a figure with title, axis label and legend around an empty grid; sizes in inches."""
    panel = options.size or (SMALL if rows * columns > FEW_PANELS else LARGE)
    width = max(columns * panel[0] + 0.5, 3.2)
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
        left=0.45 / width,
        right=1 - 0.2 / width,
        top=1 - top / height,
        bottom=(legend + 0.42) / height,
        wspace=0.26,
        hspace=0.42,
    )
    figure.supxlabel(options.xlabel, y=legend / height, va="bottom", fontsize=9)
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


def save_figure(figure: Figure, path: Path, dpi: int) -> None:
    """Write a figure; the suffix gives the format. Equal figures give equal files."""
    dates = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        figure.savefig(path, dpi=dpi, metadata=dates.get(path.suffix.lower()))


def _choose_columns(panels: int) -> int:
    """Make the grid somewhat wider than high, with few empty cells."""
    wish = max(1, round((1.5 * panels) ** 0.5))
    choices = [columns for columns in (wish, wish + 1, wish - 1) if columns > 0]
    return min(choices, key=lambda columns: -panels % columns)


def _legend_handles(panels: Sequence[Panel], labels: Sequence[str], styles: Styles) -> list[Line2D]:
    handles = []
    for label in labels:
        found = [c.seeds.max() for p in panels for c in p.curves if c.label == label]
        if found:
            low, high = min(found), max(found)
            number = f"{high}" if low == high else f"{low}–{high}"
            text = f"{label} ({number} seed{'s' if high != 1 else ''})"
            handles.append(Line2D([], [], linewidth=1.6, label=text, **styles[label]))
    return handles
