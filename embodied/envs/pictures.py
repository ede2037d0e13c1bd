"""Scaling of pictures and conversion to gray."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy as np

from embodied.core.suggest import hint
from embodied.envs.errors import MissingExtra, UnknownOption

#: Takes uint8 [height, width, channels] and the new (height, width), returns uint8.
Resize = Callable[[np.ndarray, tuple[int, int]], np.ndarray]
METHODS = ("pillow", "opencv")
#: Share of red, green and blue in brightness (ITU-R BT.601).
LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)


def make_resize(method: str) -> Resize:
    """Choose how pictures are scaled.

    Args:
      method: `pillow` (bilinear over the area of each new pixel) or `opencv` (mean over that area).

    Raises:
      UnknownOption: None of these.
      MissingExtra: The library is not installed.
    """
    libraries = {"pillow": "PIL.Image", "opencv": "cv2"}
    if method not in libraries:
        raise UnknownOption(
            f"Unknown method {method!r} for scaling pictures, expected one of "
            f"{', '.join(METHODS)}.{hint(method, METHODS)}"
        )
    try:
        library = importlib.import_module(libraries[method])
    except ModuleNotFoundError as error:
        package = "pillow" if method == "pillow" else "opencv-python-headless"
        raise MissingExtra(f"Scaling pictures needs {package}: pip install {package}") from error

    def with_pillow(picture: np.ndarray, size: tuple[int, int]) -> np.ndarray:
        image = library.fromarray(picture)
        return np.array(image.resize((size[1], size[0]), library.Resampling.BILINEAR))

    def with_opencv(picture: np.ndarray, size: tuple[int, int]) -> np.ndarray:
        resized = library.resize(picture, (size[1], size[0]), interpolation=library.INTER_AREA)
        return np.asarray(resized)

    return with_pillow if method == "pillow" else with_opencv


def to_gray(picture: np.ndarray) -> np.ndarray:
    """Reduce uint8 [height, width, 3] to its brightness, uint8 [height, width, 1]."""
    return np.rint(picture @ LUMINANCE).astype(np.uint8)[:, :, None]
