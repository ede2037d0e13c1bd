"""The table that compares our figures with those of the public implementation."""

import importlib.util
import json
import pathlib
import sys

import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def table():
    spec = importlib.util.spec_from_file_location("benchmark_table", FOLDER / "table.py")
    module = importlib.util.module_from_spec(spec)
    # Data classes look up the module of their annotations.
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[spec.name]


def lines(**values):
    return [json.dumps({"name": name.replace("__", "/"), "value": x}) for name, x in values.items()]


def compared(table, row, value, gemm=None):
    found = {"gemm_1024_2560_1024": gemm} if gemm else {}
    figures = table.read_figures(lines(**found, some__figure=value))
    public = table.read_public()[1]
    return table.compare(table.Row("", "some/figure", *row), figures["some/figure"], public)


def test_durations_and_rates_are_compared_and_scaled(table):
    gemm = "gemm_1024_2560_1024"
    duration = compared(table, (100, "lower", 0.5, gemm), 60, 75)
    assert (duration.ratio, duration.scaled, duration.met) == (0.6, 0.3, True)
    rate = compared(table, (40, "higher", 2.2, gemm), 60, 75)
    assert (rate.ratio, rate.scaled, rate.met) == (1.5, 3.0, True)
    assert not compared(table, (40, "higher", 2.2), 60, 75).met
    assert compared(table, (100, "lower", 0.6), 60).met
    assert compared(table, (100, "lower"), 60).met is None
    assert compared(table, (100, "lower", 0.5, gemm), 60).scaled is None


def test_arithmetic_is_compared_with_the_rate_of_the_same_run(table):
    result = compared(table, ("30 GFLOP", "lower", 1.7, "gemm_1024_2560_1024"), 600, 100)
    assert (result.public, result.ratio, result.met) == (300, 2.0, False)


def test_every_figure_has_the_yardsticks_before_it(table):
    found = table.read_figures([*lines(gemm=1, a__b=5), "Stepping ...", *lines(gemm=2, c__d=6)])
    assert found["a/b"]["yardsticks"] == {"gemm": 1}
    assert found["c/d"]["yardsticks"] == {"gemm": 2}


def test_the_table_has_a_line_per_row(table):
    rows, yardsticks = table.read_public()
    figure = next(row for row in rows if row.target and row.better == "lower")
    printed = list(table.table(lines(**{"gemm_1024_2560_1024": 150, figure.figure: 1e-9})))
    assert len(printed) == 1 + len(rows) + 1 + len(yardsticks)
    assert printed[1 + rows.index(figure)].endswith(" met")
    assert sum("not measured" in line for line in printed) >= len(rows) - 2
    assert all(row.better in ("lower", "higher") for row in rows)
    assert {row.yardstick for row in rows} <= {None, *yardsticks}
