"""Video files with and without the package that encodes MP4."""

import importlib.util
import io

import numpy as np
import pytest

from embodied.core.writers import pictures
from embodied.core.writers.pictures import encode_gif


def test_gif_holds_the_frames():
    images = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 256, (3, 20, 33, 3), np.uint8)
    with images.open(io.BytesIO(encode_gif(frames, 20))) as file:
        assert file.n_frames == 3
        assert file.size == (33, 20)
        for index, frame in enumerate(frames):
            file.seek(index)
            assert file.info["duration"] == 50
            shown = np.asarray(file.convert("RGB")).astype(int)
            # 8 shades of red and green and 4 of blue.
            assert np.abs(shown - frame).max(axis=(0, 1)).tolist() <= [19, 19, 43]


def test_video_file_is_what_can_be_written(tmp_path, monkeypatch):
    frames = np.zeros((2, 8, 8, 3), np.uint8)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    path = pictures.write_video(tmp_path / "new" / "film", frames, 15)
    assert path == tmp_path / "new" / "film.gif"
    assert path.read_bytes().startswith(b"GIF89a")
    monkeypatch.undo()
    pytest.importorskip("av")
    assert pictures.write_video(tmp_path / "film", frames, 15) == tmp_path / "film.mp4"
    assert b"ftyp" in (tmp_path / "film.mp4").read_bytes()[:16]
