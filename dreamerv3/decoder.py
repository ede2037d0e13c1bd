"""The decoder: predicts vectors by an MLP and images by a convolutional network."""

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from dreamerv3.images import Group, group_images
from embodied.core.config import ConfigError
from embodied.core.space import Space
from embodied.jax import layers as nn
from embodied.jax import nj
from embodied.jax.distributions import MSE, Distribution, Independent
from embodied.jax.heads import DictHead


class Decoder(nj.Module):
    """Predicts observations from the state of the world model (paper Eq. 1).

    Hyper-parameters as those of the encoder, and: `outscale` of the image output, `vec_outscale`
    of the vector outputs; `bspace` blocks of the projection from ``deter`` to the smallest map
    (0 for one dense layer); `symlog` squared error of float vectors, of which errors below
    `symlog_tol` are ignored and which with `symexp_pred` are predicted in their own range, as the
    paper-era code did; `symlog_ints` predicts integer vectors as numbers.
    """

    units: int = 1024
    norm: str = "rms"
    act: str = "silu"
    outscale: float = 1.0
    vec_outscale: float = 1.0
    depth: int = 64
    mults: tuple[int, ...] = (2, 3, 4, 4)
    layers: int = 3
    kernel: int = 5
    symlog: bool = True
    symlog_tol: float = 0.0
    symexp_pred: bool = False
    symlog_ints: bool = False
    bspace: int = 8
    outer: bool = False
    strided: bool = False
    winit: str = "trunc_normal_in"
    dtype: str = "float32"
    stats: str = "float32"

    def __init__(self, obs_space: Mapping[str, Space]) -> None:
        """Sort the observations into vectors and images; image sizes are those of the encoder.

        Raises:
          UnsupportedSpace: An image has a size that cannot be used.
          ConfigError: The smallest map has no multiple of `bspace` channels.
        """
        self.vectors = {k: s for k, s in obs_space.items() if len(s.shape) <= 2}
        self.images = {k: s for k, s in obs_space.items() if len(s.shape) == 3}
        self.depths = tuple(self.depth * mult for mult in self.mults)
        self.groups = group_images(obs_space, len(self.mults) - self.outer)
        if self.groups and self.bspace and self.depths[-1] % self.bspace:
            raise ConfigError(
                f"Got {self.depths[-1]} channels of the decoder's smallest map, the last of mults "
                f"times depth, expected a multiple of bspace, {self.bspace}; change one of them or "
                "set agent.dec.simple.bspace to 0."
            )

    def __call__(self, feat: Mapping[str, jax.Array]) -> dict[str, Distribution]:
        """Predict all observations from features ``deter`` [..., D] and ``stoch`` [..., S, C].

        Returns:
          One distribution per observation key, with a batch shape of the leading dimensions.
        """
        deter, stoch = feat["deter"], feat["stoch"]
        batch = deter.shape[:-1]
        deter = deter.reshape((math.prod(batch), -1))
        stoch = stoch.reshape((math.prod(batch), -1))
        dists: dict[str, Distribution] = {}
        if self.vectors:
            dists.update(self._decode_vectors(deter, stoch, batch))
        for prefix, images in self.groups:
            dists.update(self._decode_images(prefix, images, deter, stoch, batch))
        return dists

    def _decode_vectors(
        self, deter: jax.Array, stoch: jax.Array, batch: tuple[int, ...]
    ) -> dict[str, Distribution]:
        spaces, kinds = {}, {}
        for key, space in self.vectors.items():
            number = not space.discrete or self.symlog_ints
            spaces[key] = Space("float32", space.shape) if number else space
            kinds[key] = ("symlog_mse" if self.symlog else "mse") if number else "categorical"
        options = {"units": self.units, "norm": self.norm, "act": self.act, "winit": self.winit}
        mlp = self.sub("mlp", nn.MLP, self.layers, stats=self.stats, **options)
        x = mlp(jnp.concatenate([stoch, deter], -1))
        x = x.reshape((*batch, x.shape[-1]))
        head = self.sub(
            "vec",
            DictHead,
            spaces,
            kinds,
            outscale=self.vec_outscale,
            winit=self.winit,
            tolerance=self.symlog_tol,
            unsquash=self.symexp_pred,
        )
        return head(x)

    def _decode_images(
        self,
        prefix: str,
        images: Group,
        deter: jax.Array,
        stoch: jax.Array,
        batch: tuple[int, ...],
    ) -> dict[str, Distribution]:
        """Predict images of one size, with layers whose names start with `prefix`."""
        height, width = next(iter(images.values())).shape[:2]
        factor = 2 ** (len(self.depths) - self.outer)
        shape = (height // factor, width // factor, self.depths[-1])
        x = self._smallest_map(prefix, deter, stoch, shape)
        for index in reversed(range(len(self.depths) - 1)):
            x = self._upsample(f"{prefix}conv{index}", x, self.depths[index], 1.0)
            x = self._norm(f"{prefix}conv{index}norm", x)
        channels = [space.shape[-1] for space in images.values()]
        x = self._upsample(f"{prefix}imgout", x, sum(channels), self.outscale, keep=self.outer)
        x = jax.nn.sigmoid(x).reshape((*batch, *x.shape[1:]))
        splits = jnp.split(x, np.cumsum(channels[:-1]), -1)
        return {key: Independent(MSE(image), 3) for key, image in zip(images, splits, strict=True)}

    def _smallest_map(
        self, prefix: str, deter: jax.Array, stoch: jax.Array, shape: tuple[int, int, int]
    ) -> jax.Array:
        """Project the state to the map that is then upsampled, [N, h, w, c]."""
        height, width, channels = shape
        if not self.bspace:
            x = jnp.concatenate([stoch, deter], -1)
            x = self.sub(f"{prefix}space", nn.Linear, shape, winit=self.winit)(x)
            return self._norm(f"{prefix}spacenorm", x)
        blocks, size, name = self.bspace, math.prod(shape), f"{prefix}sp0"
        x = self.sub(name, nn.BlockLinear, size, blocks, winit=self.winit)(deter)
        x = x.reshape((-1, blocks, height, width, channels // blocks))
        x = jnp.moveaxis(x, 1, 3).reshape((-1, *shape))
        y = self.sub(f"{prefix}sp1", nn.Linear, 2 * self.units, winit=self.winit)(stoch)
        y = self._norm(f"{prefix}sp1norm", y)
        y = self.sub(f"{prefix}sp2", nn.Linear, shape, winit=self.winit)(y)
        return self._norm(f"{prefix}spnorm", x + y)

    def _upsample(
        self, name: str, x: jax.Array, depth: int, outscale: float, keep: bool = False
    ) -> jax.Array:
        """Double height and width, unless `keep`, and convolve to `depth` channels."""
        stride = 1 if keep or not self.strided else 2
        if not keep and not self.strided:
            x = x.repeat(2, -2).repeat(2, -3)
        options = {"winit": self.winit, "outscale": outscale, "transp": stride > 1}
        return self.sub(name, nn.Conv2D, depth, self.kernel, stride, **options)(x)

    def _norm(self, name: str, x: jax.Array) -> jax.Array:
        return nn.act(self.act)(self.sub(name, nn.Norm, self.norm, stats=self.stats)(x))
