import csv

import numpy as np
import pytest

from scores.curves.baselines import load_baselines
from scores.curves.notes import Notes, ScoresError
from scores.curves.runs import Run
from scores.curves.score_table import TableOptions, choose_window, make_table
from scores.curves.selection import order_labels
from scores.curves.table_text import format_csv, format_latex, format_markdown


def make(task, method, seed, xs, ys, **kwargs):
    return Run(task, method, seed, np.array(xs, float), np.array(ys, float), **kwargs)


def table_of(runs, notes=None, **options):
    labels = order_labels(runs, [])
    return make_table(runs, labels, load_baselines(), TableOptions(**options), notes or Notes())


def test_window_mean_over_seeds_is_the_one_computed_by_hand():
    runs = [
        make("dmc_a", "m", "0", [60, 80, 100, 120], [999, 10, 20, 999]),
        make("dmc_a", "m", "1", [75, 80, 81, 100], [1, 1, 1, 5]),
        make("dmc_a", "m", "2", [50], [77]),
    ]
    notes = Notes()
    table = table_of(runs, notes, at=100, window=40)
    cell = table.rows[0].cells["m"]
    # Seed 0: (10 + 20) / 2; seed 1: (1 + 1 + 1 + 5) / 4; the window (60, 100] excludes step 60.
    assert cell.mean == (15 + 2) / 2
    assert (cell.seeds, cell.scores) == (2, 6)
    spread = np.std([15, 2], ddof=1)
    np.testing.assert_allclose([cell.low, cell.high], [8.5 - spread, 8.5 + spread])
    assert len(notes.texts) == 1 and "seed 2" in notes.texts[0] and "ends at 50" in notes.texts[0]
    assert "(60, 100]" in format_markdown(table)


def test_automatic_window():
    runs = [make("dmc_a", "m", "0", np.arange(10, 501, 10), np.zeros(50))]
    assert choose_window(runs, None, None).text == "(490, 500]"
    assert choose_window(runs, 250, None).text == "(245, 250]"
    runs.append(make("dmc_a", "m", "1", [465], [0]))  # Gets to 90%, so it is waited for.
    assert choose_window(runs, None, None).text == "(460, 500]"
    runs.append(make("dmc_a", "m", "2", [100], [0]))
    assert choose_window(runs, None, None).text == "(460, 500]"
    runs += [make("dmc_a", name, "0", [200], [0]) for name in ("n", "o")]
    assert choose_window(runs, None, None).high == 200  # The step that two of three reach.


def test_no_score_in_the_window_is_an_error():
    with pytest.raises(ScoresError, match="No run has a score"):
        table_of([make("dmc_a", "m", "0", [10], [1])], at=1000, window=10)


def proprio_runs():
    tasks = load_baselines().references["dmc_proprio"].scores
    return [
        make(task, "m", seed, [100], [index + offset], benchmark="dmc_proprio")
        for index, task in enumerate(tasks)
        for seed, offset in (("0", 0), ("1", 1))
    ]


def test_reference_column_and_its_summary():
    table = table_of(proprio_runs())
    rows = {row.name: row for row in table.rows}
    assert rows["dmc_walker_walk"].reference == 936
    assert round(rows["task mean"].reference, 1) == 753.6
    assert rows["task median"].reference == 870.5 and rows["task IQM"].reference is None
    assert rows["task mean"].cells["m"].mean == 9.0
    text = format_markdown(table)
    assert "paper (Table 11)" in text and "D4PG 733/792" in text
    # Not over other tasks, not for other benchmarks, not when switched off.
    partial = table_of(proprio_runs()[:-2])
    assert {row.name: row for row in partial.rows}["task mean"].reference is None
    assert table_of(proprio_runs(), reference="none").reference is None
    other = [make("dmc_walker_walk", "m", "0", [1], [1], benchmark="dmc_vision")]
    assert table_of(other).reference is None
    assert table_of(other, reference="dmc_proprio").rows[0].reference == 936
    with pytest.raises(ScoresError, match=r"no reference 'x'.*dmc_proprio"):
        table_of(other, reference="x")


def test_normalised_rows_of_atari():
    runs = [
        make("atari_pong", "m", "0", [1], [14.6]),
        make("atari_boxing", "m", "0", [1], [24.1]),
        make("atari_unknown", "m", "0", [1], [1]),
    ]
    notes = Notes()
    rows = {row.name: row for row in table_of(runs, notes).rows}
    np.testing.assert_allclose(rows["gamer mean"].cells["m"].mean, 1.5)
    np.testing.assert_allclose(rows["gamer capped mean"].cells["m"].mean, 1.0)
    assert any("atari_unknown" in note for note in notes.texts)


def test_text_formats():
    runs = [
        make("dmc_a", "x_1", "0", [1], [1]),
        make("dmc_a", "x_1", "1", [1], [3]),
        make("dmc_b", "x_1", "0", [1], [5]),
        make("dmc_b", "y", "0", [1], [7]),
    ]
    table = table_of(runs)
    lines = format_markdown(table).splitlines()
    assert lines[0] == "| Task | x_1 (2 seeds) | y (1 seed) |"
    assert lines[2] == "| dmc_a | 2.0 ± 1.4 | – |"
    assert lines[3] == "| dmc_b | 5.0 (1) | 7.0 |"
    assert lines[4] == "| **task mean** | 3.5 [3.0, 4.0] | – |"
    assert "dmc\\_a & 2.0 $\\pm$ 1.4 & -- \\\\" in format_latex(table)
    records = list(csv.DictReader(format_csv(table).splitlines()))
    assert records[0]["row"] == "dmc_a" and float(records[0]["mean"]) == 2
    assert (records[0]["seeds"], records[0]["window_high"]) == ("2", "1.0")
    assert {record["kind"] for record in records} == {"task", "aggregate"}
    bootstrap = format_markdown(table_of(runs, interval="bootstrap"))
    assert "| dmc_a | 2.0 [1.0, 3.0] |" in bootstrap
