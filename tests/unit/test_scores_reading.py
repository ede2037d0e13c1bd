import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scores.curves.axis import convert_axis
from scores.curves.figure import shown_label
from scores.curves.notes import Notes, ScoresError
from scores.curves.panels import task_title
from scores.curves.run_folders import from_name
from scores.curves.runs import Run, last_pass
from scores.curves.score_files import read_score_file, write_score_file
from scores.curves.selection import (
    keep_origins_apart,
    load_runs,
    note_early_ends,
    order_labels,
    rename_methods,
    select_methods,
    select_tasks,
)

CONFIG = """
task: dmc_walker_walk
method: ours
seed: 3
env:
  atari: {repeat: 4}
  dmc: {repeat: 2, image: false, proprio: true}
"""


def run_folder(path, scores=(), evals=(), config=CONFIG, tail=""):
    path.mkdir(parents=True)
    if config:
        (path / "config.yaml").write_text(config)
    lines = [json.dumps({"step": s, "episode/score": y}) for s, y in scores]
    (path / "scores.jsonl").write_text("\n".join([*lines, ""]) + tail)
    if evals:
        lines = [json.dumps({"step": s, "eval/episode/score": y}) for s, y in evals]
        (path / "eval_scores.jsonl").write_text("\n".join(lines) + "\n")
    return path


def score_file(path, *records):
    keys = ("task", "method", "seed", "xs", "ys")
    path.parent.mkdir(parents=True, exist_ok=True)
    data = json.dumps([dict(zip(keys, record, strict=True)) for record in records])
    path.write_bytes(gzip.compress(data.encode()))
    return path


def load(*paths):
    notes = Notes()
    return load_runs([str(path) for path in paths], notes), notes.texts


def test_run_folder_identity_comes_from_the_config(tmp_path):
    run_folder(tmp_path / "deep" / "er" / "20250101T000000", [(10, 1.5), (20, 2.0)])
    (run,), notes = load(tmp_path)
    assert (run.task, run.method, run.seed, run.repeat) == ("dmc_walker_walk", "ours", "3", 2)
    assert (run.benchmark, run.suite, run.label) == ("dmc_proprio", "dmc", "ours")
    assert run.xs.tolist() == [10, 20] and run.ys.tolist() == [1.5, 2.0]
    assert notes == ()


@pytest.mark.parametrize(
    "name, expected",
    [
        ("20250101T000000-dmc_cup_catch-dreamerv3-7", ("dmc_cup_catch", "dreamerv3", "7")),
        ("exp-a-atari_pong-ours-0", ("atari_pong", "ours", "0")),
        ("x-dmc_walker_walk-my-method-12", ("dmc_walker_walk", "my-method", "12")),
        ("dmc_walker_walk/some.method/5", ("dmc_walker_walk", "some.method", "5")),
        ("no/hint/here", None),
        ("walker-ours-1", None),
    ],
)
def test_identity_from_folder_names(tmp_path, name, expected):
    found = from_name(tmp_path / name)
    assert (found and (found.task, found.method, found.seed)) == expected


def test_named_folders_without_config(tmp_path):
    run_folder(tmp_path / "20250101T000000-dmc_walker_walk-a-1", [(1, 1)], config="")
    run_folder(tmp_path / "dmc_walker_run" / "b" / "2", [(1, 1)], config="")
    run_folder(tmp_path / "anything", [(1, 1)], config="")
    runs, notes = load(tmp_path)
    assert {(r.task, r.method, r.seed) for r in runs} == {
        ("dmc_walker_walk", "a", "1"),
        ("dmc_walker_run", "b", "2"),
    }
    assert len(notes) == 1 and "anything" in notes[0]


def test_broken_config_falls_back_to_the_name(tmp_path):
    folder = run_folder(tmp_path / "x-dmc_walker_walk-a-1", [(1, 1)], config="task: [cut")
    (run,), notes = load(folder)
    assert (run.method, run.seed) == ("a", "1")
    assert any("config.yaml" in note for note in notes)


def test_training_and_evaluation_are_separate_series(tmp_path):
    folder = run_folder(tmp_path / "run", [(10, 1)], evals=[(10, 5), (10, 7)])
    with (folder / "scores.jsonl").open("a") as stream:
        stream.write('{"step": 20, "eval/episode/score": 9}\n')
    runs, _ = load(folder)
    assert {run.label: run.ys.tolist() for run in runs} == {"ours": [1], "ours (eval)": [5, 7]}
    (folder / "eval_scores.jsonl").unlink()
    runs, _ = load(folder)
    assert {run.label: run.ys.tolist() for run in runs} == {"ours": [1], "ours (eval)": [9]}


def test_scores_in_metrics_are_used_where_there_is_no_scores_file(tmp_path):
    folder = run_folder(tmp_path / "run")
    (folder / "scores.jsonl").unlink()
    lines = '{"step": 5, "episode/score": 2}\n{"step": 6, "train/loss": 1}\n'
    (folder / "metrics.jsonl").write_text(lines)
    (run,), notes = load(folder)
    assert run.xs.tolist() == [5]
    assert "metrics.jsonl" in notes[0]


def test_damage_is_noted_and_the_rest_is_read(tmp_path):
    scores = [(10, 1), (20, float("nan")), (30, float("inf")), (40, None), (50, 2)]
    folder = run_folder(tmp_path / "run", scores, tail='garbage\n{"step": 60, "episode/sc')
    (run,), notes = load(folder)
    assert run.xs.tolist() == [10, 50]
    assert any("last line is cut" in note for note in notes)
    assert any("1 unreadable line" in note for note in notes)
    assert any("3 scores" in note and "NaN" in note for note in notes)


def test_resumed_run_replaces_what_it_recorded_again(tmp_path):
    scores = [(10, 1), (20, 2), (20, 2.5), (30, 3), (20, 7), (30, 8), (40, 9)]
    (run,), notes = load(run_folder(tmp_path / "run", scores))
    assert run.xs.tolist() == [10, 20, 30, 40] and run.ys.tolist() == [1, 7, 8, 9]
    assert "resumed" in notes[0] and "3 scores" in notes[0]


@given(st.lists(st.integers(0, 8), max_size=20))
def test_last_pass_matches_replaying_the_log(steps):
    kept = []
    for step in steps:
        if kept and step < kept[-1]:
            kept = [old for old in kept if old < step]
        kept.append(step)
    array = np.array(steps, float)
    assert array[last_pass(array)].tolist() == kept


def test_run_without_episodes_is_noted(tmp_path):
    run_folder(tmp_path / "empty")
    run_folder(tmp_path / "full", [(1, 1)])
    runs, notes = load(tmp_path)
    assert len(runs) == 1 and "empty" in notes[0] and "no episode" in notes[0]
    with pytest.raises(ScoresError, match="No finished episodes"):
        load(tmp_path / "empty")


def test_evaluations_of_a_saved_agent_inside_a_run_are_no_runs(tmp_path):
    run_folder(tmp_path / "run", [(1, 1)])
    run_folder(tmp_path / "run" / "eval" / "20250101T000000")
    runs, notes = load(tmp_path)
    assert len(runs) == 1 and not notes


def test_score_files_with_all_their_quirks(tmp_path):
    path = score_file(
        tmp_path / "dmc_vision-x.json.gz",
        ("dmc_walker_walk", "x", 0, [1, 2, 3], [1, None, 3]),
        ("dmc_walker_walk", "x", "1", [1.0], [5.0]),
        ("dmc_walker_run", "x", 10, [1, 2], [None, None]),
        ("dmc_walker_run", "x", 11, [1, 2], [1]),
    )
    runs, notes = load(tmp_path)
    assert [(r.task, r.seed, r.xs.tolist()) for r in runs] == [
        ("dmc_walker_walk", "0", [1, 3]),
        ("dmc_walker_walk", "1", [1]),
    ]
    assert runs[0].benchmark == "dmc_vision" and runs[0].source == str(path)
    assert len(notes) == 3 and any("3 scores" in note for note in notes)


@pytest.mark.parametrize(
    "content",
    [b"", b"not gzip", gzip.compress(b"[1, 2", mtime=0)[:-3], b"{}"],
    ids=["empty", "not gzip", "cut", "not a list"],
)
def test_damaged_score_file_is_noted(tmp_path, content):
    path = tmp_path / "dmc-x.json.gz"
    path.write_bytes(content)
    notes = Notes()
    assert read_score_file(path, notes) == []
    assert len(notes.texts) == 1


def test_overlapping_paths_count_once_and_links_are_followed(tmp_path):
    folder = run_folder(tmp_path / "runs" / "a", [(1, 1)])
    (tmp_path / "link").symlink_to(tmp_path / "runs")
    (folder / "loop").symlink_to(tmp_path / "runs")
    runs, _ = load(tmp_path, tmp_path / "runs", folder, folder / "scores.jsonl", tmp_path / "link")
    assert len(runs) == 1


def test_internals_of_a_run_are_not_searched(tmp_path):
    folder = run_folder(tmp_path / "a", [(1, 1)])
    run_folder(folder / "ckpt" / "00", [(1, 2)])
    run_folder(folder / "again", [(1, 3)])
    assert [run.ys.tolist() for run in load(tmp_path)[0]] == [[1], [3]]


def test_paths_can_carry_a_method_name(tmp_path):
    run_folder(tmp_path / "a", [(1, 1)])
    (run,), _ = load(f"mine={tmp_path}")
    assert run.method == "mine"
    with pytest.raises(ScoresError, match="nowhere"):
        load("mine=nowhere")


def make(task="dmc_a", method="m", seed="0", xs=(1, 2), **kwargs):
    xs = np.array(xs, float)
    return Run(task, method, seed, xs, xs * 10, **kwargs)


def test_filters_and_their_errors():
    runs = [make("dmc_a", "x"), make("dmc_b", "y"), make("dmc_a", "y [1]", series="eval")]
    assert len(select_tasks(runs, ["dmc_a"])) == 2
    assert len(select_tasks(runs, [])) == 3
    assert len(select_methods(runs, ["y*"], "train")) == 1
    assert [run.method for run in select_methods(runs, ["y [1]"], "both")] == ["y [1]"]
    assert len(select_methods([make(method="d (own)")], ["d"], "both")) == 1
    with pytest.raises(ScoresError, match=r"No task matches 'dmc_c'.*dmc_a"):
        select_tasks(runs, ["dmc_c"])
    with pytest.raises(ScoresError, match="No run is left"):
        select_methods(runs, ["x"], "eval")


def test_renaming_keeps_the_order_and_can_join_methods():
    runs = [make(method="x"), make(method="y"), make(method="z", series="eval")]
    renamed, labels = rename_methods(runs, ["z (eval)", "x", "y"], ["[xy]=both", "z=a"])
    assert labels == ["a (eval)", "both"]
    assert [run.method for run in renamed] == ["both", "both", "a"]
    with pytest.raises(ScoresError, match="OLD=NEW"):
        rename_methods(runs, [], ["x"])
    with pytest.raises(ScoresError, match="No method"):
        rename_methods(runs, [], ["w=x"])


def test_label_order_is_natural_or_as_asked():
    runs = [make(method="m10"), make(method="m2"), make(method="a", series="eval")]
    assert order_labels(runs, []) == ["a (eval)", "m2", "m10"]
    assert order_labels(runs, ["m10", "m*"]) == ["m10", "m2", "a (eval)"]


def test_same_name_from_several_origins_is_kept_apart():
    runs = [
        make(method="d", source="/o/dmc_proprio-d.json.gz", benchmark="dmc_proprio"),
        make(method="d", source="/o/dmc_vision-d.json.gz", benchmark="dmc_vision"),
        make(method="d", source="/r/1", folder=Path("/r/1")),
        make(method="d", task="atari_pong", source="/o/atari57-d.json.gz", benchmark="atari57"),
        make(method="e", source="/o/dmc-e.json.gz"),
        make(method="e", source="/p/dmc-e.json.gz"),
        make(method="f", source="/o/dmc_proprio-f.json.gz", benchmark="dmc_proprio"),
        make(method="f", source="/r/2", folder=Path("/r/2")),
    ]
    notes = Notes()
    assert [run.method for run in keep_origins_apart(runs, notes)] == [
        "d (dmc_proprio)",
        "d (dmc_vision)",
        "d (own)",
        "d",
        "e (o)",
        "e (p)",
        "f",
        "f (own)",
    ]
    assert len(notes.texts) == 3


def test_early_ends_are_noted():
    notes = Notes()
    note_early_ends([make(xs=(1, 100)), make(seed="1", xs=(1, 50)), make(seed="2")], notes)
    assert len(notes.texts) == 1 and "2 of them" in notes.texts[0] and "50 of 100" in notes.texts[0]


def test_export_round_trip_keeps_every_score(tmp_path):
    runs = [make(seed="3"), make(seed="3", xs=(5, 6)), make(series="eval", xs=(0.1, 0.2))]
    path = tmp_path / "new" / "dmc-m.json.gz"
    write_score_file(path, runs)
    found = read_score_file(path, Notes())
    assert [(r.label, r.seed) for r in found] == [("m", "3"), ("m", "3-2"), ("m (eval)", "0")]
    for old, new in zip(runs, found, strict=True):
        np.testing.assert_array_equal(old.xs, new.xs)
        np.testing.assert_array_equal(old.ys, new.ys)
    first = path.read_bytes()
    write_score_file(path, runs)
    assert path.read_bytes() == first


def test_other_axes(tmp_path):
    folder = run_folder(tmp_path / "run", [(100, 1), (150, 2), (200, 3)])
    lines = [{"step": s, "train/opt/updates": s / 4, "time": 1000 + 72 * s} for s in (100, 200)]
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (run,), _ = load(folder)
    notes = Notes()
    assert convert_axis([run], "frames", notes)[0].xs.tolist() == [100, 150, 200]
    assert convert_axis([run], "steps", notes)[0].xs.tolist() == [50, 75, 100]
    assert convert_axis([run], "updates", notes)[0].xs.tolist() == [25, 37.5, 50]
    np.testing.assert_allclose(convert_axis([run], "hours", notes)[0].xs, [0, 1, 2])
    assert notes.texts == ()
    assert len(convert_axis([run, make(source="file")], "updates", notes)) == 1
    assert "file" in notes.texts[0]
    with pytest.raises(ScoresError, match="over steps"):
        convert_axis([make()], "steps", notes)


def test_hours_from_dated_scope_files(tmp_path):
    folder = run_folder(tmp_path / "run", [(100, 1), (200, 3)])
    (folder / "scope" / "report-openloop.mp4").mkdir(parents=True)
    for step in (100, 200):
        name = f"{step:020d}-{1000 + 36 * step:08x}deadbeef.mp4"
        (folder / "scope" / "report-openloop.mp4" / name).write_bytes(b"")
    (run,), _ = load(folder)
    np.testing.assert_allclose(convert_axis([run], "hours", Notes())[0].xs, [0, 1])
    (folder / "scope" / "report-openloop.mp4" / name).unlink()
    with pytest.raises(ScoresError, match="over hours"):
        convert_axis([run], "hours", Notes())


def test_tasks_by_import_path_are_suites_of_their_own(tmp_path):
    config = "task: my_envs:Grid_World\nmethod: name\nseed: 0\n"
    runs, _ = load(run_folder(tmp_path / "run", [(1, 2)], config=config))
    assert (runs[0].suite, runs[0].method) == ("my_envs:Grid_World", "name")
    assert task_title(runs[0].task) == "my_envs:Grid_World"


def test_an_evaluation_by_itself_is_read_without_episodes_that_were_cut(tmp_path):
    folder = run_folder(tmp_path / "run" / "eval" / "1")
    episodes = [{"score": 5}, {"score": 7}, {"score": 100, "partial": True}]
    (folder / "episodes.jsonl").write_text("".join(json.dumps(x) + "\n" for x in episodes))
    (folder / "summary.json").write_text(json.dumps({"step": 10}))
    runs, notes = load(folder)
    assert [run.series for run in runs] == ["eval"]
    assert (runs[0].xs.tolist(), runs[0].ys.tolist()) == ([20, 20], [5, 7])
    assert not notes
    (folder / "summary.json").unlink()
    with pytest.raises(ScoresError):
        load(folder)


@pytest.mark.parametrize("order", [1, -1])
def test_a_name_for_a_part_of_a_folder_counts_in_any_order(tmp_path, order):
    for name in ("a", "b"):
        run_folder(tmp_path / name, [(1, 2)])
    runs, _ = load(*[tmp_path, f"theirs={tmp_path / 'b'}"][::order])
    assert sorted(run.method for run in runs) == ["ours", "theirs"]


def test_runs_without_a_method_are_own_in_the_legend():
    assert [shown_label(x) for x in ("name", "name (eval)", "rename")] == [
        "own",
        "own (eval)",
        "rename",
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("indent", [None, 2])
def test_older_logs_are_read(tmp_path, encoding, indent):
    folder = run_folder(tmp_path / "run")
    (folder / "scores.jsonl").unlink()
    records = [{"step": s, "train_return": str(2 * s), "eval_return": 7} for s in (1, 2)]
    text = "".join(json.dumps(record, indent=indent) + "\n" for record in records)
    (folder / "metrics.jsonl").write_text(text, encoding=encoding)
    runs, _ = load(folder)
    assert {run.series: run.ys.tolist() for run in runs} == {"train": [2, 4], "eval": [7, 7]}


def test_keys_name_other_scores(tmp_path):
    folder = run_folder(tmp_path / "run")
    records = [{"step": s, "goals": s, "eval_goals": 3 * s, "eval_return": 9} for s in (1, 2)]
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, records)))
    runs = load_runs([str(folder)], Notes(), keys=["goals", "eval_goals"])
    assert {run.series: run.ys.tolist() for run in runs} == {"train": [1, 2], "eval": [3, 6]}
    with pytest.raises(ScoresError, match="No finished episodes"):
        load_runs([str(folder)], Notes(), keys=["episode/goals"])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_folders_of_score_files_without_compression_are_read(tmp_path, encoding):
    record = {"task": "dmc_a", "method": "m", "seed": 0, "xs": [1, 2], "ys": ["3", 4]}
    (tmp_path / "dmc-m.json").write_text(json.dumps([record], indent=1), encoding=encoding)
    (tmp_path / "other.json").write_text("{}")
    runs, notes = load(tmp_path)
    assert [run.ys.tolist() for run in runs] == [[3, 4]]
    assert any("other.json: is not a list of runs" in note for note in notes)
