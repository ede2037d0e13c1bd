"""Log outputs: file formats, channels of pictures, damaged files."""

import importlib.util
import io
import json
import logging
import struct

import numpy as np
import pytest

from embodied.core.writers.jsonl import JSONLWriter
from embodied.core.writers.pictures import encode_mp4, encode_png, to_rgb
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


def test_jsonl_appends_after_an_unfinished_line(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "a": 1}\n{"step": 2, "a"')
    output = JSONLWriter(tmp_path)
    output([record(3, "a", 3)])
    output([record(4, "a", 4)])
    text = path.read_text().splitlines()
    assert [json.loads(line)["step"] for line in (text[0], *text[2:])] == [1, 3, 4]


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


def test_scope_warns_once_without_encoder(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    output = ScopeWriter(tmp_path)
    video = np.zeros((3, 8, 8, 3), np.uint8)
    with caplog.at_level(logging.WARNING):
        output([record(1, "video", video), record(2, "video", video), record(2, "x", 1)])
    assert len(caplog.records) == 1
    assert "'av'" in caplog.text
    assert (tmp_path / "scope" / "x.float").exists()


@pytest.mark.parametrize("channels, panels", [(1, 1), (2, 2), (3, 1), (4, 4), (6, 2)])
def test_any_number_of_channels_becomes_colour(channels, panels):
    picture = np.arange(2 * 5 * channels, dtype=np.uint8).reshape(2, 5, channels)
    rgb = to_rgb(picture)
    assert rgb.shape == (2, 5 * panels, 3)
    width = 3 if channels % 3 == 0 else 1
    last = picture[..., -width:]
    np.testing.assert_array_equal(rgb[:, -5:], np.broadcast_to(last, (2, 5, 3)))


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 1), (5, 7, 3), (84, 84, 4)])
def test_png_is_read_back_by_another_decoder(shape):
    image = pytest.importorskip("PIL.Image")
    picture = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    decoded = np.asarray(image.open(io.BytesIO(encode_png(picture))))
    if picture.size == 35:
        np.testing.assert_array_equal(decoded, picture.reshape(5, 7))
    else:
        np.testing.assert_array_equal(decoded, to_rgb(picture))


def test_float_pictures_are_clipped_to_bytes():
    picture = np.array([[[-1.0], [0.0], [0.5], [1.0], [2.0], [np.nan]]], np.float32)
    assert to_rgb(picture)[0, :, 0].tolist() == [0, 0, 128, 255, 255, 0]


@pytest.mark.parametrize("shape", [(4, 64, 64, 3), (4, 64, 96, 1), (3, 84, 84, 4), (2, 5, 5, 6)])
def test_video_is_read_back(shape):
    av = pytest.importorskip("av")
    frames = np.zeros(shape, np.uint8)
    frames[:, :, : shape[2] // 2] = 200
    with av.open(io.BytesIO(encode_mp4(frames, fps=15))) as container:
        decoded = np.stack([f.to_ndarray(format="rgb24") for f in container.decode(video=0)])
        rate = container.streams.video[0].average_rate
    assert len(decoded) == shape[0]
    assert float(rate) == 15
    height, width = decoded.shape[1:3]
    panels = 1 if shape[-1] in (1, 3) else 2 if shape[-1] == 6 else 4
    assert round(width / height, 1) == round(shape[2] * panels / shape[1], 1)
    np.testing.assert_allclose(decoded[:, height // 2, 4], 200, atol=12)


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
