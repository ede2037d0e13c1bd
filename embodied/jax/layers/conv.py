"""Convolutions over channels-last pictures and videos."""

from typing import ClassVar

import jax

from embodied.jax.layers.functions import require_floating
from embodied.jax.layers.layer import Affine

Sizes = int | tuple[int, ...]


class _Conv(Affine):
    """What convolutions of any rank share.

    Parameters: kernel (*spatial, in / groups, depth) and bias (depth,).

    Attributes:
      transp: Whether to upsample by the stride instead of downsampling by it.
      groups: Number of channel groups that do not see each other.
      pad: 'same' or 'valid'.
    """

    transp: bool = False
    groups: int = 1
    pad: str = "same"
    _axes: ClassVar[str]

    def __init__(self, depth: int, kernel: Sizes, stride: Sizes = 1) -> None:
        """Set the output channels, kernel size and stride (one number, or one per axis).

        Raises:
          ValueError: for sizes of another length, unknown padding, or indivisible groups.
        """
        if self.pad not in ("same", "valid"):
            raise ValueError(f"'{self.path}' got pad '{self.pad}', expected 'same' or 'valid'.")
        if depth % self.groups or (self.transp and self.groups > 1):
            raise ValueError(
                f"'{self.path}' got {self.groups} groups for {depth} channels, expected a divisor "
                "(and one group in a transposed convolution)."
            )
        self.depth = depth
        self.kernel = self._per_axis("kernel", kernel)
        self.stride = self._per_axis("stride", stride)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Convolve x [N, *spatial, channels]; returns [N, *spatial', depth] in the dtype of x.

        Raises:
          TypeError: if x is not floating point.
          ValueError: if x has another rank, or channels that the groups do not divide.
        """
        label = f"{type(self).__name__} '{self.path}'"
        require_floating(x, label)
        if x.ndim != len(self._axes) + 2 or x.shape[-1] % self.groups:
            raise ValueError(
                f"{label} got an input of shape {x.shape}, expected [N, {', '.join(self._axes)}, "
                f"C] with C a multiple of {self.groups}; flatten the leading dims first."
            )
        shape = (*self.kernel, x.shape[-1] // self.groups, self.depth)
        kernel = self._kernel(shape, x.dtype)
        y = self._transposed(x, kernel) if self.transp else self._plain(x, kernel)
        return self._add_bias(y, self.depth, (self.depth,))

    @property
    def _dimensions(self) -> tuple[str, str, str]:
        """Layouts of input, kernel and output."""
        return f"N{self._axes}C", f"{self._axes}IO", f"N{self._axes}C"

    def _plain(self, x: jax.Array, kernel: jax.Array) -> jax.Array:
        """Strided convolution."""
        return jax.lax.conv_general_dilated(
            x,
            kernel,
            self.stride,
            self.pad.upper(),
            dimension_numbers=self._dimensions,
            feature_group_count=self.groups,
        )

    def _transposed(self, x: jax.Array, kernel: jax.Array) -> jax.Array:
        """Fractionally strided convolution."""
        raise NotImplementedError

    def _per_axis(self, name: str, sizes: Sizes) -> tuple[int, ...]:
        """Repeat a single size for every spatial axis."""
        rank = len(self._axes)
        sizes = (sizes,) * rank if isinstance(sizes, int) else tuple(sizes)
        if len(sizes) != rank:
            raise ValueError(
                f"{type(self).__name__} '{self.path}' got the {name} {sizes}, expected one number "
                f"or {rank} of them."
            )
        return sizes


class Conv2D(_Conv):
    """Convolution over pictures [N, H, W, C] with a kernel in HWIO layout.

    The transposed mode repeats pixels by the stride, keeps those at indices i with
    `(i - 1) % stride == 0`, zeroes the rest, and applies an ordinary convolution of stride 1.
    """

    _axes = "HW"

    def _transposed(self, x: jax.Array, kernel: jax.Array) -> jax.Array:
        """Convolution over the input with zeros in between, without building that array."""
        padding = []
        for size, stride in zip(self.kernel, self.stride, strict=True):
            before = 1 % stride
            after = stride - 1 - before
            same = ((size - 1) // 2, size // 2) if self.pad == "same" else (0, 0)
            padding.append((same[0] + before, same[1] + after))
        return jax.lax.conv_general_dilated(
            x,
            kernel,
            (1, 1),
            padding,
            lhs_dilation=self.stride,
            dimension_numbers=self._dimensions,
        )


class Conv3D(_Conv):
    """Convolution over videos [N, T, H, W, C] with a kernel in THWIO layout.

    The transposed mode is the one of `jax.lax.conv_transpose`.
    """

    _axes = "THW"

    @property
    def _dimensions(self) -> tuple[str, str, str]:
        """Layouts of input, kernel and output; JAX calls the first of three axes depth."""
        return "NDHWC", "DHWIO", "NDHWC"

    def _transposed(self, x: jax.Array, kernel: jax.Array) -> jax.Array:
        """Fractionally strided convolution of JAX."""
        return jax.lax.conv_transpose(
            x, kernel, self.stride, self.pad.upper(), dimension_numbers=self._dimensions
        )
