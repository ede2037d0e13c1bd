"""Log outputs: file formats, damaged files, missing packages."""

import importlib.util
import json
import logging
import struct

import numpy as np
import pytest

from embodied.core.writers.jsonl import JSONLWriter
from embodied.core.writers.scope import ScopeWriter
from embodied.core.writers.terminal import TerminalWriter, format_number
from embodied.core.writers.writer import Record


def record(step, key, value):
    return Record(step, key, value if isinstance(value, str) else np.asarray(value))


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_jsonl_groups_by_step_and_keeps_repeated_keys(tmp_path):
    output = JSONLWriter(tmp_path)
    output(
        [
            record(4, "a", 1.5),
            record(8, "a", np.int64(3)),
            record(4, "b", np.float32(0.5)),
            record(8, "a", 4),
            record(8, "flag", True),
        ]
    )
    assert lines(tmp_path / "metrics.jsonl") == [
        {"step": 4, "a": 1.5, "b": 0.5},
        {"step": 8, "a": 3},
        {"step": 8, "a": 4, "flag": 1.0},
    ]


def test_jsonl_writes_null_for_numbers_that_json_lacks(tmp_path):
    values = {"a": np.nan, "b": np.inf, "c": -np.inf}
    JSONLWriter(tmp_path)([record(1, key, value) for key, value in values.items()])
    assert lines(tmp_path / "metrics.jsonl") == [{"step": 1, "a": None, "b": None, "c": None}]


def test_jsonl_pattern_and_strings(tmp_path):
    records = [record(1, "episode/score", 2.0), record(1, "timer", "text"), record(1, "x", 1)]
    JSONLWriter(tmp_path, "scores.jsonl", "episode/score")(records)
    JSONLWriter(tmp_path, "texts.jsonl", strings=True)(records)
    JSONLWriter(tmp_path, "none.jsonl", "absent")(records)
    assert lines(tmp_path / "scores.jsonl") == [{"step": 1, "episode/score": 2.0}]
    assert lines(tmp_path / "texts.jsonl")[0]["timer"] == "text"
    assert not (tmp_path / "none.jsonl").exists()


@pytest.mark.parametrize(
    ("last", "steps"), [('{"step": 2, "a"', [1, 3, 4]), ('{"step": 2, "a": 2}', [1, 2, 3, 4])]
)
def test_jsonl_repairs_an_unfinished_line(tmp_path, last, steps):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "a": 1}\n' + last)
    output = JSONLWriter(tmp_path)
    output([record(3, "a", 3)])
    output([record(4, "a", 4)])
    assert [line["step"] for line in lines(path)] == steps


def test_jsonl_survives_the_removal_of_its_folder(tmp_path):
    output = JSONLWriter(tmp_path / "run")
    output([record(1, "a", 1)])
    (tmp_path / "run" / "metrics.jsonl").unlink()
    (tmp_path / "run").rmdir()
    output([record(2, "a", 1)])
    assert lines(tmp_path / "run" / "metrics.jsonl") == [{"step": 2, "a": 1}]


def test_scope_scalars(tmp_path):
    output = ScopeWriter(tmp_path)
    output([record(5, "train/loss", 0.25), record(6, "train/loss", np.nan)])
    path = tmp_path / "scope" / "train-loss.float"
    path.write_bytes(path.read_bytes() + b"torn")
    output([record(7, "train/loss", -1)])
    content = path.read_bytes()
    rows = [struct.unpack(">qd", content[i : i + 16]) for i in range(0, len(content), 16)]
    assert rows[0] == (5, 0.25)
    assert rows[1][0] == 6
    assert np.isnan(rows[1][1])
    assert rows[2] == (7, -1.0)


def test_scope_takes_names_that_files_cannot_have(tmp_path):
    ScopeWriter(tmp_path)([record(1, "x" * 300, 1.0), record(1, "x" * 301, 2.0)])
    assert len(list((tmp_path / "scope").glob("x*.float"))) == 2


def test_scope_files_and_index(tmp_path):
    output = ScopeWriter(tmp_path)
    output([record(12, "a/text", "hello"), record(13, "a/text", "world")])
    output([record(12, "pic", np.zeros((4, 6, 3), np.uint8)), record(1, "vec", [1.0, 2.0])])
    folder = tmp_path / "scope" / "a-text.txt"
    index = (folder / "index").read_bytes()
    entries = [struct.unpack("q8s", index[i : i + 16]) for i in range(0, len(index), 16)]
    texts = [(folder / f"{step:020d}-{ident.hex()}.txt").read_text() for step, ident in entries]
    assert [step for step, _ in entries] == [12, 13]
    assert texts == ["hello", "world"]
    assert len(list((tmp_path / "scope" / "pic.png").glob("00000000000000000012-*.png"))) == 1
    assert not list((tmp_path / "scope").glob("vec*"))


def test_scope_warns_once_of_each_kind_that_it_cannot_encode(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    output = ScopeWriter(tmp_path)
    video, image = np.zeros((3, 8, 8, 3), np.uint8), np.zeros((8, 8), np.uint8)
    with caplog.at_level(logging.WARNING):
        output([record(1, "video", video), record(2, "video", video), record(2, "x", 1)])
        output([record(3, "image", image), record(4, "image", image), record(4, "x", 1)])
    video_warning, image_warning = (entry.getMessage() for entry in caplog.records)
    assert video_warning == (
        "Videos such as 'video' are left out of the Scope log because the package 'av' is not "
        "installed; install the extra 'scope' to get them."
    )
    assert image_warning.startswith("Images such as 'image'")
    assert "'pillow'" in image_warning
    assert [path.name for path in (tmp_path / "scope").iterdir()] == ["x.float"]


def test_terminal_prints_one_line(capsys):
    output = TerminalWriter("score|loss", name="run")
    output(
        [
            record(1000, "episode/score", 1.0),
            record(2000, "episode/score", 12.5),
            record(2000, "train/loss/dyn", 0.012345),
            record(2000, "other", 1),
            record(2000, "loss/text", "text"),
        ]
    )
    expected = "run | step 2,000 | episode/score 12.5 | train/loss/dyn 0.0123\n"
    assert capsys.readouterr().out == expected
    output([record(1, "other", 1)])
    assert capsys.readouterr().out == ""


def test_terminal_says_how_many_metrics_are_left_out(capsys):
    TerminalWriter(limit=2)([record(1, key, 1) for key in "abcd"])
    assert capsys.readouterr().out == "step 1 | a 1 | b 1 | and 2 more\n"


@pytest.mark.parametrize(
    "value, text",
    [
        (0.0, "0"),
        (12, "12"),
        (-3.0, "-3"),
        (99999, "99999"),
        (123456, "123K"),
        (1.5e6, "1.5M"),
        (-2.345e9, "-2.35G"),
        (4.85e14, "4.8e14"),
        (0.693147, "0.693"),
        (123.456, "123"),
        (1234.5, "1.23K"),
        (999.7, "1e+03"),
        (3e-5, "3.0e-5"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
    ],
)
def test_format_number(value, text):
    assert format_number(value) == text
