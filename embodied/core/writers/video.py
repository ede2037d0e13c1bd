"""Writes videos as MP4 files."""

import importlib.util
import io
from pathlib import Path

import numpy as np

from embodied.core.writers.gif import encode_gif
from embodied.core.writers.png import to_rgb

_MIN_SIDE = 64


def encode_mp4(frames: np.ndarray, fps: int) -> bytes:
    """Write a video with H.264, playable in browsers.

    Small frames are enlarged by repeating pixels, because the colour of H.264 has half the
    resolution; odd sides are extended by one pixel, because it only knows even ones.

    Args:
      frames: [T, H, W, channels], uint8 or float between 0 and 1; for channels see `to_rgb`.
      fps: Frames per second.

    Returns:
      The bytes of the file.

    Raises:
      ImportError: If the package `av` is not installed.
    """
    import av  # An optional dependency, so only loaded when there is a video to write.

    pixels = _fit(to_rgb(frames))
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=fps)
        stream.height, stream.width = pixels.shape[1:3]
        stream.pix_fmt = "yuv420p"
        stream.options = {"crf": "18", "preset": "veryfast"}
        for picture in pixels:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    return buffer.getvalue()


def write_video(path: Path, frames: np.ndarray, fps: int) -> Path:
    """Write a video file: MP4 if the package `av` (extra `video`) is installed, else GIF.

    Args:
      path: File to write, without extension; its folder is made when needed.
      frames: [T, H, W, channels], see `encode_mp4`.
      fps: Frames per second.

    Returns:
      The path of the file.
    """
    mp4 = importlib.util.find_spec("av") is not None
    target = path.with_name(path.name + (".mp4" if mp4 else ".gif"))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(encode_mp4(frames, fps) if mp4 else encode_gif(frames, fps))
    return target


def _fit(pixels: np.ndarray) -> np.ndarray:
    """Bring frames [T, H, W, 3] to a size that the encoder handles well."""
    height, width = pixels.shape[1:3]
    factor = -(-_MIN_SIDE // min(height, width))
    pixels = pixels.repeat(factor, axis=1).repeat(factor, axis=2)
    height, width = pixels.shape[1:3]
    odd = ((0, 0), (0, height % 2), (0, width % 2), (0, 0))
    return np.ascontiguousarray(np.pad(pixels, odd, mode="edge"))
