"""Line colours and dash patterns for any number of methods."""

import colorsys

BASE = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc3311",
    "#9467bd",
    "#56b4e9",
    "#8c564b",
    "#e377c2",
    "#7f7f7f",
    "#bcbd22",
)
DASHES = ((), (5.0, 1.5), (1.5, 1.2), (6.0, 1.5, 1.5, 1.5))
GOLDEN_RATIO = 0.618033988749895


def line_colour(index: int) -> str:
    """Return the colour of the method with this index, `#rrggbb`.

    The first ten are told apart by people with any colour vision; further ones walk around the
    colour circle in golden-ratio steps with changing lightness and never repeat in practice.
    """
    if index < len(BASE):
        return BASE[index]
    extra = index - len(BASE)
    hue = (0.07 + GOLDEN_RATIO * extra) % 1.0
    lightness = (0.40, 0.62, 0.28)[extra % 3]
    channels = colorsys.hls_to_rgb(hue, lightness, 0.7)
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in channels)


def line_dashes(index: int) -> tuple[float, ...]:
    """Return the dash pattern of the method with this index; it changes every ten methods."""
    return DASHES[index // len(BASE) % len(DASHES)]
