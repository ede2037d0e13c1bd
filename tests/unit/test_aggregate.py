"""Aggregation of metrics."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embodied.core.aggregate import Agg


def test_defaults_average_numbers_and_keep_the_last_of_the_rest():
    agg = Agg()
    agg.add({"x": 1, "text": "a", "image": np.zeros((2, 2))})
    agg.add({"x": np.float32(2), "text": "b", "image": np.ones((2, 2))})
    result = agg.result(prefix="train")
    assert result["train/x"] == 1.5
    assert result["train/text"] == "b"
    assert result["train/image"].sum() == 4
    assert agg.result() == {}


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_all_aggregations_agree_with_numpy(values):
    agg = Agg()
    kinds = ("avg", "sum", "min", "max", "first", "last", "stack")
    for value in values:
        agg.add("x", value, kinds)
    result = agg.result()
    assert result["x/avg"] == pytest.approx(np.mean(values))
    assert result["x/sum"] == pytest.approx(np.sum(values))
    assert (result["x/min"], result["x/max"]) == (min(values), max(values))
    assert (result["x/first"], result["x/last"]) == (values[0], values[-1])
    np.testing.assert_array_equal(result["x/stack"], values)


def test_small_integers_do_not_overflow():
    agg = Agg()
    for _ in range(300):
        agg.add("x", np.uint8(200), "sum")
    assert agg.result()["x"] == 60_000


def test_arrays_aggregate_elementwise():
    agg = Agg()
    agg.add("x", np.array([1, 5]), ("max", "avg"), prefix="p")
    agg.add("x", np.array([3, 1]), ("max", "avg"), prefix="p")
    result = agg.result()
    assert result["p/x/max"].tolist() == [3, 5]
    assert result["p/x/avg"].tolist() == [2, 3]


def test_result_without_reset_keeps_values():
    agg = Agg()
    agg.add("x", 1, "sum")
    assert agg.result(reset=False) == {"x": 1}
    agg.add("x", 1, "sum")
    assert agg.result() == {"x": 2}


def test_unknown_and_changed_aggregations_are_refused():
    agg = Agg()
    with pytest.raises(ValueError, match=r"'median'.*expected one of avg"):
        agg.add("x", 1, ("avg", "median"))
    agg.add("x", 1, "sum")
    with pytest.raises(ValueError, match="already"):
        agg.add("x", 1, "max")
