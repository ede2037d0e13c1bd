import json
from pathlib import Path

import numpy as np
import pytest

from scores.curves.axis import bin_run, make_edges
from scores.curves.baselines import Suite, load_baselines
from scores.curves.figure import line_colour, line_dashes
from scores.curves.notes import Notes
from scores.curves.panels import PanelOptions, make_panels, task_title
from scores.curves.runs import Run
from scores.curves.statistics import (
    AGGREGATES,
    comparable,
    interquartile_mean,
    interval_over_seeds,
    mean_over_seeds,
    summarise,
)

NAN = float("nan")
FACTS = Path(__file__).parents[3] / "shared" / "facts" / "score_baselines.json"


def make(task, method, seed, xs, ys):
    return Run(task, method, seed, np.array(xs, float), np.array(ys, float))


def test_bins_are_closed_at_their_right_edge():
    run = make("dmc_a", "m", "0", [0, 10, 10.5, 20, 40], [1, 3, 4, 6, 8])
    values = bin_run(run, make_edges(0, 50, 5))
    np.testing.assert_array_equal(values, [2, 5, 6.5, 8, NAN])  # The third is interpolated.


def test_scores_outside_the_range_are_left_out():
    run = make("dmc_a", "m", "0", [5, 15, 25], [1, 2, 3])
    np.testing.assert_array_equal(bin_run(run, make_edges(10, 20, 2)), [2, NAN])
    np.testing.assert_array_equal(bin_run(run, make_edges(100, 200, 2)), [NAN, NAN])


def test_official_grid_falls_into_one_bin_per_point():
    xs = np.arange(10_000.0, 500_000, 10_000)
    values = bin_run(make("dmc_a", "m", "0", xs, xs), make_edges(0, 500_000, 50))
    np.testing.assert_array_equal(values[:49], xs)


def test_mean_and_counts_over_seeds_that_end_early():
    mean, counts = mean_over_seeds(np.array([[1.0, 2.0, NAN], [3.0, NAN, NAN]]))
    np.testing.assert_array_equal(mean, [2, 2, NAN])
    assert counts.tolist() == [2, 1, 0]


def test_intervals_have_known_values():
    values = np.array([[1.0, 1.0], [2.0, NAN], [6.0, NAN]])
    low, high = interval_over_seeds(values, "std")
    deviation = np.std([1, 2, 6], ddof=1)
    np.testing.assert_allclose(low, [3 - deviation, NAN])
    np.testing.assert_allclose(high, [3 + deviation, NAN])
    low, high = interval_over_seeds(values, "sem")
    np.testing.assert_allclose(high - low, [2 * deviation / np.sqrt(3), NAN])
    assert np.isnan(interval_over_seeds(values, "none")).all()
    assert np.isnan(interval_over_seeds(values[:1], "bootstrap")).all()


def test_bootstrap_interval_of_many_seeds_is_near_the_normal_one():
    values = np.random.default_rng(0).normal(5, 2, size=(400, 1))
    low, high = interval_over_seeds(values, "bootstrap")
    half = 1.96 * values.std(ddof=1) / 20
    np.testing.assert_allclose(
        [low[0], high[0]], [values.mean() - half, values.mean() + half], atol=0.03
    )
    again = interval_over_seeds(values, "bootstrap")
    np.testing.assert_array_equal([low, high], again)


def test_interquartile_mean_of_known_values():
    values = np.array([[9.0, 1.0], [0.0, 2.0], [1.0, NAN], [2.0, NAN], [3.0, 3.0], [100, 4.0]])
    # Six values lose floor(6 / 4) = 1 at each end, four values lose one.
    np.testing.assert_allclose(interquartile_mean(values), [(1 + 2 + 3 + 9) / 4, 2.5])
    assert np.isnan(interquartile_mean(np.full((2, 1), NAN)))


SUITE = Suite("S", "gamer", ("mean",), {"s_a": (10.0, 20.0), "s_b": (0.0, 100.0)})


def test_aggregates_have_known_values():
    values = {"s_a": np.array([[30.0], [50.0]]), "s_b": np.array([[10.0]])}
    wanted = ["mean", "median", "iqm", "norm_mean", "norm_median", "norm_iqm", "capped_mean"]
    found = summarise(values, [AGGREGATES[key] for key in wanted], SUITE, resamples=200)
    # Normalised: a is 2 and 4 (mean 3), b is 0.1; three runs lose none, floor(3 / 4) = 0.
    expected = [25, 25, 30, 1.55, 1.55, 6.1 / 3, 0.55]
    np.testing.assert_allclose([summary.mean[0] for summary in found], expected)
    for summary in found:
        assert summary.low[0] <= summary.mean[0] <= summary.high[0]
        assert summary.seeds.tolist() == [1]
    # The draws take seeds within a task: the lowest has a = 30 twice, the highest a = 50 twice.
    assert (found[0].low[0], found[0].high[0]) == (20.0, 30.0)


def test_aggregate_needs_every_task():
    values = {"s_a": np.array([[1.0, 1.0]]), "s_b": np.array([[2.0, NAN]])}
    wanted = [AGGREGATES[key] for key in ("mean", "median", "iqm")]
    for summary in summarise(values, wanted, SUITE, resamples=10):
        np.testing.assert_array_equal(summary.mean, [1.5, NAN])
        assert np.isnan(summary.low).all()  # One seed per task says nothing on the spread.


def test_bootstrap_is_stratified():
    """Between tasks there is a difference of 1000 that must not widen the interval."""
    rng = np.random.default_rng(0)
    values = {"s_a": rng.normal(0, 1, (10, 1)), "s_b": rng.normal(1000, 1, (10, 1))}
    (summary,) = summarise(values, [AGGREGATES["mean"]], SUITE)
    assert 0.3 < summary.high[0] - summary.low[0] < 2


def test_methods_without_all_tasks_are_not_compared():
    notes = Notes()
    found = {"x": {"a", "b", "c"}, "y": {"a"}, "z": {"c", "b", "a"}}
    assert comparable(found, "dmc", notes) == (["a", "b", "c"], ["x", "z"])
    assert len(notes.texts) == 1 and "1 of the 3" in notes.texts[0]
    assert comparable({"x": {"a"}}, "dmc", notes) == ([], [])
    assert comparable({}, "dmc", notes) == ([], [])


def test_panels_hold_means_counts_and_aggregates():
    runs = [
        make("dmc_a_b", "m", "0", [5, 10], [1, 2]),
        make("dmc_a_b", "m", "1", [5], [3]),
        make("dmc_c", "m", "0", [5, 10], [5, 6]),
        make("dmc_c", "short", "0", [1], [7]),
    ]
    notes = Notes()
    options = PanelOptions(bins=2, aggregates=("mean",))
    panels = make_panels(runs, ["m", "short"], load_baselines(), options, notes)
    assert [panel.title for panel in panels] == ["A B", "C", "Task mean"]
    (curve,) = panels[0].curves
    assert curve.xs.tolist() == [5, 10] and curve.mean.tolist() == [2, 2]
    assert curve.seeds.tolist() == [2, 1]
    assert [c.label for c in panels[1].curves] == ["m", "short"]
    (curve,) = panels[2].curves
    assert curve.mean.tolist() == [3.5, 4] and curve.seeds.tolist() == [1, 1]
    assert len(notes.texts) == 1


def test_task_titles():
    assert task_title("dmc_walker_walk") == "Walker Walk"
    assert task_title("dummy") == "Dummy"


def test_colours_do_not_run_out():
    styles = {(line_colour(index), line_dashes(index)) for index in range(300)}
    assert len(styles) == 300
    assert len({line_colour(index) for index in range(100)}) == 100


def test_baselines_file_is_complete():
    baselines = load_baselines()
    scores = {name: suite.scores for name, suite in baselines.suites.items()}
    assert {k: len(v) for k, v in scores.items() if v} == {"atari": 57, "dmlab": 30, "procgen": 16}
    for name, suite in baselines.suites.items():
        assert all(key in AGGREGATES for key in suite.aggregates)
        assert all(task.startswith(f"{name}_") for task in suite.scores)
        assert all(random < expert for random, expert in suite.scores.values())
    reference = baselines.references["dmc_proprio"]
    published = list(reference.scores.values())
    assert len(published) == 18
    assert round(np.mean(published), 1) == 753.6 and np.median(published) == 870.5
    assert baselines.aliases["dmc_cup_catch"] in reference.scores


@pytest.mark.skipif(not FACTS.is_file(), reason="needs the published baselines")
def test_baselines_file_has_the_published_scores():
    facts = json.loads(FACTS.read_text())
    baselines = load_baselines()
    for name, key in (
        ("atari", "atari57_gamer"),
        ("dmlab", "dmlab30"),
        ("procgen", "procgen_hard"),
    ):
        published = {task: tuple(pair) for task, pair in facts[key].items()}
        assert dict(baselines.suite(name).scores) == published
