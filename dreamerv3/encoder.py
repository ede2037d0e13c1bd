"""The encoder: vectors through an MLP, images through a convolutional network."""

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from dreamerv3.images import Group, group_images, unit_range
from embodied.core.space import Space
from embodied.envs.errors import UnsupportedSpace
from embodied.jax import layers as nn
from embodied.jax import nj


class Encoder(nj.Module):
    """Turns observations into one vector of tokens (paper Eq. 1).

    Observations with up to two dimensions are vectors: floats are squashed by symlog, integers
    become one-hot vectors. Observations with three dimensions are images [height, width,
    channels]: uint8, or floats within finite bounds. Images of one size share a network; a further
    size has one of its own, whose layers are called ``images1_cnn0`` and so on.

    Hyper-parameters: `units` and `layers` of the MLP; `depth` times `mults` channels per stage of
    the convolutional network with `kernel`; `strided` convolutions instead of max-pooling;
    `outer` keeps the resolution in the first stage; `symlog` of float vectors; `symlog_ints`
    treats integer vectors as numbers, as the paper-era code did.
    """

    units: int = 1024
    norm: str = "rms"
    act: str = "silu"
    depth: int = 64
    mults: tuple[int, ...] = (2, 3, 4, 4)
    layers: int = 3
    kernel: int = 5
    symlog: bool = True
    symlog_ints: bool = False
    outer: bool = False
    strided: bool = False
    winit: str = "trunc_normal_in"
    dtype: str = "float32"
    stats: str = "float32"

    def __init__(self, obs_space: Mapping[str, Space]) -> None:
        """Sort the observations into vectors and images.

        Raises:
          UnsupportedSpace: There is no observation, or one is neither, or an image has a size that
            cannot be halved down to a map between 3x3 and 16x16.
        """
        if not obs_space:
            raise UnsupportedSpace(
                "Got an environment without observations, expected at least one key besides reward "
                "and the flags of the episode: an agent that sees nothing has nothing to model."
            )
        self.obs_space = dict(obs_space)
        self.vectors = {k: s for k, s in obs_space.items() if len(s.shape) <= 2}
        self.images = {k: s for k, s in obs_space.items() if len(s.shape) == 3}
        unknown = sorted(set(obs_space) - set(self.vectors) - set(self.images))
        if unknown:
            raise UnsupportedSpace(
                f"Got observation '{unknown[0]}' of shape {obs_space[unknown[0]].shape}; "
                f"expected at most three dimensions (height, width, channels)."
            )
        self.groups = group_images(obs_space, self.stages)

    @property
    def stages(self) -> int:
        """How often the image is halved."""
        return len(self.mults) - self.outer

    def __call__(self, obs: Mapping[str, jax.Array], batch_dims: int = 2) -> jax.Array:
        """Encode observations with `batch_dims` leading dimensions to tokens [..., E]."""
        tokens = []
        batch = jax.tree.leaves(dict(obs))[0].shape[:batch_dims]
        if self.vectors:
            tokens.append(self._encode_vectors({k: obs[k] for k in self.vectors}, batch))
        for prefix, images in self.groups:
            tokens.append(self._encode_images(prefix, images, obs, batch))
        return jnp.concatenate([x.reshape((*batch, -1)) for x in tokens], -1)

    def _encode_vectors(self, obs: dict[str, jax.Array], batch: tuple[int, ...]) -> jax.Array:
        squish = nn.symlog if self.symlog else (lambda x: x)
        numbers = nn.DictConcat(self.vectors, 1, squish, self.dtype, onehot=not self.symlog_ints)
        x = numbers(obs)
        x = x.reshape((math.prod(batch), -1))
        for index in range(self.layers):
            x = self.sub(f"mlp{index}", nn.Linear, self.units, winit=self.winit)(x)
            x = self._norm(f"mlp{index}norm", x)
        return x

    def _encode_images(
        self, prefix: str, images: Group, obs: Mapping[str, jax.Array], batch: tuple[int, ...]
    ) -> jax.Array:
        centered = [_centered(images[key], obs[key], self.dtype) for key in sorted(images)]
        x = jnp.concatenate(centered, -1)
        x = x.reshape((math.prod(batch), *x.shape[len(batch) :]))
        for index, mult in enumerate(self.mults):
            keep = self.outer and index == 0
            stride = 2 if self.strided and not keep else 1
            features, name = self.depth * mult, f"{prefix}cnn{index}"
            x = self.sub(name, nn.Conv2D, features, self.kernel, stride, winit=self.winit)(x)
            if not self.strided and not keep:
                x = _max_pool(x)
            x = self._norm(f"{name}norm", x)
        return x

    def _norm(self, name: str, x: jax.Array) -> jax.Array:
        return nn.act(self.act)(self.sub(name, nn.Norm, self.norm, stats=self.stats)(x))


def _centered(space: Space, image: jax.Array, dtype: str) -> jax.Array:
    """Scale an image to between -0.5 and 0.5; bytes are scaled in the compute dtype."""
    if space.discrete:
        return image.astype(dtype) / 255 - 0.5
    return unit_range(space, image).astype(dtype) - 0.5


def _max_pool(x: jax.Array) -> jax.Array:
    """Halve height and width, [N, H, W, F] to [N, H/2, W/2, F]."""
    count, height, width, features = x.shape
    return x.reshape((count, height // 2, 2, width // 2, 2, features)).max((2, 4))
