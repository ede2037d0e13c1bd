"""Score tables as Markdown, CSV and LaTeX."""

import csv
import io
import math

from scores.curves.score_table import Row, ScoreTable
from scores.curves.statistics import INTERVALS

FORMATS = ("markdown", "csv", "latex")


def window_text(table: ScoreTable) -> str:
    """Say which scores were averaged, for people."""
    several = len(table.windows) > 1
    spans = [f"{w.suite} {w.text}" if several else w.text for w in table.windows]
    return f"mean over seeds of each run's mean score in the frames {', '.join(spans)}"


def format_markdown(table: ScoreTable, digits: int = 1) -> str:
    """Return the table as Markdown with a sentence on how it was made."""
    header = _header(table)
    lines = [_markdown_row(header), _markdown_row([":--", *["--:"] * (len(header) - 1)])]
    for row in table.rows:
        name = f"**{row.name}**" if row.aggregate else row.name
        lines.append(_markdown_row([name, *_numbers(table, row, digits)]))
    return "\n".join([*lines, "", *_explanation(table)]) + "\n"


def format_latex(table: ScoreTable, digits: int = 1) -> str:
    """Return the table as a LaTeX `tabular` for the `booktabs` package."""
    header = _header(table)
    lines = [f"% {text}" for text in _explanation(table)]
    lines += [f"\\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}", "\\toprule"]
    lines += [_latex_row(header), "\\midrule"]
    previous = False
    for row in table.rows:
        if row.aggregate != previous:
            lines.append("\\midrule")
        previous = row.aggregate
        lines.append(_latex_row([row.name, *_numbers(table, row, digits)]))
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"


def format_csv(table: ScoreTable) -> str:
    """Return one line per task and method, with full precision."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    fields = "row kind method mean low high interval seeds scores window_low window_high reference"
    writer.writerow(fields.split())
    for row in table.rows:
        kind, interval = ("aggregate", "bootstrap") if row.aggregate else ("task", table.interval)
        reference = "" if row.reference is None else repr(row.reference)
        window = (repr(row.window.low), repr(row.window.high))
        for label in table.labels:
            if label in row.cells:
                cell = row.cells[label]
                numbers = [number_text(x) for x in (cell.mean, cell.low, cell.high)]
                counts = (cell.seeds, cell.scores)
                writer.writerow(
                    [row.name, kind, label, *numbers, interval, *counts, *window, reference]
                )
    return stream.getvalue()


def number_text(value: float) -> str:
    """Write a number so that reading it gives the same; empty for NaN."""
    return repr(float(value)) if math.isfinite(value) else ""


def _header(table: ScoreTable) -> list[str]:
    """Titles of the columns, with the number of seeds that most cells below them average."""
    titles = ["Task"]
    for label in table.labels:
        seeds = _most_seeds(table, label)
        titles.append(f"{label} ({seeds} seed{'s' if seeds != 1 else ''})")
    return titles if table.reference is None else [*titles, table.reference.title]


def _numbers(table: ScoreTable, row: Row, digits: int) -> list[str]:
    """Scores of a row in the order of the columns, the published one last."""
    texts = [_cell(table, row, label, digits) for label in table.labels]
    if table.reference is None:
        return texts
    return [*texts, "–" if row.reference is None else f"{row.reference:.{digits}f}"]


def _cell(table: ScoreTable, row: Row, label: str, digits: int) -> str:
    if label not in row.cells:
        return "–"
    cell = row.cells[label]
    digits = max(digits, 2) if row.normalised else digits
    text = f"{cell.mean:.{digits}f}"
    if math.isfinite(cell.low):
        if row.aggregate or table.interval == "bootstrap":
            text += f" [{cell.low:.{digits}f}, {cell.high:.{digits}f}]"
        else:
            text += f" ± {(cell.high - cell.low) / 2:.{digits}f}"
    if not row.aggregate and cell.seeds < _most_seeds(table, label):
        text += f" ({cell.seeds})"
    return text


def _most_seeds(table: ScoreTable, label: str) -> int:
    rows = [row for row in table.rows if label in row.cells and not row.aggregate]
    return max(row.cells[label].seeds for row in rows)


def _explanation(table: ScoreTable) -> list[str]:
    lines = [f"Scores: {window_text(table)}."]
    lines.append(
        f"Intervals: {INTERVALS[table.interval]}; rows over tasks: 95% stratified bootstrap."
    )
    if table.reference:
        others = ", ".join(f"{k} {m:g}/{d:g}" for k, (m, d) in table.reference.summary.items())
        title = table.reference.title
        lines.append(f"{title}: {table.reference.note} Mean/median of others there: {others}.")
    return lines


def _markdown_row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _latex_row(cells: list[str]) -> str:
    escaped = []
    for cell in cells:
        for symbol in "&%$#_{}":
            cell = cell.replace(symbol, f"\\{symbol}")
        escaped.append(cell.replace("±", "$\\pm$").replace("–", "--"))
    return " & ".join(escaped) + " \\\\"
