"""Arrays as pictures: PNG, GIF and MP4 files, with and without the packages that encode them."""

import importlib.util
import io

import numpy as np
import pytest

from embodied.core.writers.pictures import (
    encode_gif,
    encode_mp4,
    encode_png,
    missing_video_package,
    to_rgb,
    write_video,
)


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


def test_gif_holds_the_frames():
    images = pytest.importorskip("PIL.Image")
    ramp = np.linspace(0, 255, 33).astype(np.uint8)
    frames = np.stack(
        [np.roll(np.full((20, 33, 3), ramp[:, None]), shift, 1) for shift in range(3)]
    )
    with images.open(io.BytesIO(encode_gif(frames, 20))) as file:
        assert file.n_frames == 3
        assert file.size == (33, 20)
        assert file.info["loop"] == 0
        for index, frame in enumerate(frames):
            file.seek(index)
            assert file.info["duration"] == 50
            np.testing.assert_allclose(np.asarray(file.convert("RGB")), frame, atol=8)


def test_video_file_is_what_can_be_written(tmp_path, monkeypatch):
    pytest.importorskip("PIL")
    frames = np.zeros((2, 8, 8, 1), np.uint8)
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name != "av" and found(name))
    path = write_video(tmp_path / "new" / "film", frames, 15)
    assert path == tmp_path / "new" / "film.gif"
    assert path.read_bytes().startswith(b"GIF89a")
    monkeypatch.undo()
    pytest.importorskip("av")
    assert write_video(tmp_path / "film", frames, 15) == tmp_path / "film.mp4"
    assert b"ftyp" in (tmp_path / "film.mp4").read_bytes()[:16]


@pytest.mark.parametrize("installed", [(), ("av",), ("PIL",)])
def test_one_of_two_packages_is_enough_for_videos(installed, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name in installed or None)
    problem = missing_video_package()
    assert bool(problem) == (not installed)
    assert "extra 'video' or 'images'" in problem or installed
