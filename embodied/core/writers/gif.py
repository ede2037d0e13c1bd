"""Writes videos as GIF files, which needs no package."""

import struct

import numpy as np

from embodied.core.writers.png import to_rgb

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
