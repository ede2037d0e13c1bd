"""Arrays as pictures: channels as colours, and PNG, GIF and MP4 files.

Pillow (extra `images`) writes PNG and GIF, and PyAV (extra `video`) writes MP4. Both are imported
when there is a picture to write.
"""

import importlib.util
import io
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embodied.core.writers.writer import Record

_LOG = logging.getLogger(__name__)
_MIN_SIDE = 64


def to_rgb(pictures: np.ndarray) -> np.ndarray:
    """Show any number of channels as colours.

    One channel becomes gray and three are taken as red, green and blue. Other multiples of three
    are shown as colour panels side by side, any other number as gray panels side by side, so that
    nothing is hidden.

    Args:
      pictures: [..., H, W, channels], uint8 or float between 0 and 1.

    Returns:
      [..., H, W * panels, 3], uint8.
    """
    pictures = to_uint8(pictures)
    channels = pictures.shape[-1]
    if channels % 3:
        panels = [pictures[..., i : i + 1].repeat(3, axis=-1) for i in range(channels)]
    else:
        panels = [pictures[..., i : i + 3] for i in range(0, channels, 3)]
    return np.concatenate(panels, axis=-2)


def to_uint8(pictures: np.ndarray) -> np.ndarray:
    """Convert floats between 0 and 1 (clipped) and booleans to bytes; uint8 stays as it is."""
    if pictures.dtype == np.uint8:
        return pictures
    scaled = np.nan_to_num(pictures.astype(np.float32), nan=0.0)
    return (np.clip(scaled, 0, 1) * 255).round().astype(np.uint8)


def encode_png(picture: np.ndarray) -> bytes:
    """Write a picture as a PNG file.

    Args:
      picture: [H, W] or [H, W, channels], uint8 or float between 0 and 1; see `to_rgb`.

    Returns:
      The bytes of the file: 8 bits per channel, gray for one channel, else colour.

    Raises:
      ImportError: If the package `pillow` is not installed.
    """
    from PIL import Image

    gray = picture.ndim == 2 or picture.shape[-1] == 1
    pixels = to_uint8(picture).reshape(picture.shape[:2]) if gray else to_rgb(picture)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def encode_gif(frames: np.ndarray, fps: int) -> bytes:
    """Write a video with up to 256 colours per frame, repeated for ever.

    Args:
      frames: [T, H, W, channels], uint8 or float between 0 and 1; for channels see `to_rgb`.
      fps: Frames per second; viewers know hundredths of a second and show at most 50.

    Returns:
      The bytes of the file.

    Raises:
      ImportError: If the package `pillow` is not installed.
    """
    from PIL import Image

    # The method that Pillow takes by itself is fifty times as slow.
    method = Image.Quantize.FASTOCTREE
    pictures = [Image.fromarray(frame).quantize(method=method) for frame in to_rgb(frames)]
    buffer = io.BytesIO()
    options: dict[str, Any] = {"duration": 10 * max(2, round(100 / fps)), "loop": 0}
    pictures[0].save(buffer, "GIF", save_all=True, append_images=pictures[1:], **options)
    return buffer.getvalue()


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
    import av

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

    Raises:
      ImportError: If there is neither `av` nor `pillow`; see `missing_video_package`.
    """
    mp4 = _installed("av")
    content = encode_mp4(frames, fps) if mp4 else encode_gif(frames, fps)
    target = path.with_name(path.name + (".mp4" if mp4 else ".gif"))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    return target


def missing_video_package() -> str:
    """Explain what `write_video` lacks, in one sentence; empty if it can write."""
    if _installed("av") or _installed("PIL"):
        return ""
    return (
        "Videos need the package 'av' (for MP4) or 'pillow' (for GIF), and neither is installed; "
        "install the extra 'video' or 'images', in a checkout with: pip install -e '.[video]'."
    )


class PictureFilter:
    """Leaves out the images and videos for which no package is installed, with a warning of each.

    Writers hand their records through it, so that everything else is logged all the same.
    """

    def __init__(self, log: str, extra: str, videos: Sequence[str] = ("av", "PIL")) -> None:
        """Look for the packages.

        Args:
          log: What the warnings call the log.
          extra: The extra that installs what the log needs.
          videos: Modules of which one is needed for a video; images need `PIL`.
        """
        self._log, self._extra = log, extra
        modules = {"image": ("PIL",), "video": tuple(videos)}
        self._missing = {
            kind: needed[-1].replace("PIL", "pillow")
            for kind, needed in modules.items()
            if not any(map(_installed, needed))
        }
        self._warned: set[str] = set()

    def __call__(self, records: Sequence[Record]) -> list[Record]:
        """Return the records that can be written, in their order."""
        for record in records:
            if record.kind in self._missing and record.kind not in self._warned:
                self._warned.add(record.kind)
                _LOG.warning(
                    "%ss such as '%s' are left out of the %s log because the package '%s' is not "
                    "installed; install the extra '%s' to get them.",
                    record.kind.capitalize(),
                    record.key,
                    self._log,
                    self._missing[record.kind],
                    self._extra,
                )
        return [record for record in records if record.kind not in self._missing]


def _installed(module: str) -> bool:
    return bool(importlib.util.find_spec(module))


def _fit(pixels: np.ndarray) -> np.ndarray:
    """Bring frames [T, H, W, 3] to a size that the encoder handles well."""
    height, width = pixels.shape[1:3]
    factor = -(-_MIN_SIDE // min(height, width))
    pixels = pixels.repeat(factor, axis=1).repeat(factor, axis=2)
    height, width = pixels.shape[1:3]
    odd = ((0, 0), (0, height % 2), (0, width % 2), (0, 0))
    return np.ascontiguousarray(np.pad(pixels, odd, mode="edge"))
