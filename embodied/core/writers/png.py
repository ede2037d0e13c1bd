"""Turns arrays into pictures: channels into colours, and pictures into PNG files."""

import struct
import zlib

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
