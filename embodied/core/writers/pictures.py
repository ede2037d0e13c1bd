"""Arrays as pictures: channels as colours, and PNG, GIF and MP4 files."""

import importlib.util
import io
import struct
import zlib
from pathlib import Path

import numpy as np

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GRAY, _RGB = 0, 2


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
    """
    gray = picture.ndim == 2 or picture.shape[-1] == 1
    pixels = to_uint8(picture).reshape(picture.shape[:2]) if gray else to_rgb(picture)
    height, width = pixels.shape[:2]
    rows = np.ascontiguousarray(pixels).reshape(height, -1)
    # Each line starts with the number of its filter, 0 for none.
    filtered = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, _GRAY if gray else _RGB, 0, 0, 0)
    return b"".join(
        [
            _SIGNATURE,
            _chunk(b"IHDR", header),
            _chunk(b"IDAT", zlib.compress(filtered.tobytes(), level=6)),
            _chunk(b"IEND", b""),
        ]
    )


def _chunk(name: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)


_LEVELS = (8, 8, 4)  # Shades of red, green and blue in the 256 colours of every file.
_CODE_BITS = 9
_CLEAR, _END = 256, 257
# Codes would grow to 10 bits when the table of the decompressor is full, so it is emptied before.
_RUN = 254


def encode_gif(frames: np.ndarray, fps: int) -> bytes:
    """Write a video with 256 fixed colours, without compression, repeated for ever.

    Args:
      frames: [T, H, W, channels], uint8 or float between 0 and 1; for channels see `to_rgb`.
      fps: Frames per second.

    Returns:
      The bytes of the file.
    """
    pixels = to_rgb(frames)
    height, width = pixels.shape[1:3]
    delay = max(2, round(100 / fps))
    parts = [
        b"GIF89a",
        struct.pack("<HHBBB", width, height, 0xF7, 0, 0),
        _palette(),
        b"\x21\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00",
    ]
    for indices in _quantize(pixels):
        parts += [
            b"\x21\xf9\x04\x00" + struct.pack("<H", delay) + b"\x00\x00",
            b"\x2c" + struct.pack("<HHHHB", 0, 0, width, height, 0),
            _blocks(_codes(indices.reshape(-1))),
        ]
    return b"".join([*parts, b"\x3b"])


def _palette() -> bytes:
    red, green, blue = np.meshgrid(*(np.arange(n) * 255 // (n - 1) for n in _LEVELS), indexing="ij")
    return np.stack([red, green, blue], -1).astype(np.uint8).tobytes()


def _quantize(pixels: np.ndarray) -> np.ndarray:
    """Index of the closest colour of each pixel, [T, H, W]."""
    levels = np.array(_LEVELS)
    shades = (pixels * (levels - 1.0) / 255).round().astype(np.uint8)
    weights = np.array([_LEVELS[1] * _LEVELS[2], _LEVELS[2], 1], np.uint8)
    return (shades * weights).sum(-1, dtype=np.uint8)


def _codes(indices: np.ndarray) -> bytes:
    """Literal codes of 9 bits, lowest bit first, with a clear code before every run of them."""
    runs = [indices[i : i + _RUN] for i in range(0, len(indices), _RUN)]
    codes = [np.concatenate([[_CLEAR], run]) for run in runs]
    values = np.concatenate([*codes, [_END]]).astype(np.uint16)
    bits = (values[:, None] >> np.arange(_CODE_BITS)) & 1
    return np.packbits(bits.astype(np.uint8).reshape(-1), bitorder="little").tobytes()


def _blocks(content: bytes) -> bytes:
    """Cut the data of a frame into blocks of at most 255 bytes, each after its size."""
    blocks = [content[i : i + 255] for i in range(0, len(content), 255)]
    return b"\x08" + b"".join(bytes([len(block)]) + block for block in blocks) + b"\x00"


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
