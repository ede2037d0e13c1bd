"""Neural network layers, used as ``from embodied.jax import layers as nn``.

Parameters are float32; computation happens in the dtype of the input. Layers that turn raw inputs
into activations (`DictConcat`, `DictEmbed`, `Embed`) take the compute dtype as an option.

- `functions.py`: functions without parameters; `initializer.py`: initial values.
- `layer.py`: base classes; `linear.py`, `conv.py`, `norm.py`, `mlp.py`, `gru.py`, `embed.py`,
  `attention.py`, `transformer.py`, `dicts.py`: the layers.
- `layer_scan.py`: a stack of equal layers.
"""

from embodied.jax.layers.attention import Attention, attend, rotate
from embodied.jax.layers.conv import Conv2D, Conv3D
from embodied.jax.layers.dicts import DictConcat, DictEmbed
from embodied.jax.layers.embed import Embed
from embodied.jax.layers.functions import (
    ACTIVATIONS,
    act,
    available,
    cast,
    mask,
    recall,
    require_floating,
    rms,
    symexp,
    symlog,
    where,
)
from embodied.jax.layers.gru import GRU
from embodied.jax.layers.initializer import Initializer, compute_fans, init
from embodied.jax.layers.layer import Affine, Layer, WithLinear
from embodied.jax.layers.layer_scan import LayerScan
from embodied.jax.layers.linear import (
    BlockLinear,
    Linear,
    block_matmul,
    from_block_major,
    to_block_major,
)
from embodied.jax.layers.mlp import MLP
from embodied.jax.layers.norm import Norm, standardize
from embodied.jax.layers.transformer import Transformer

__all__ = [
    "ACTIVATIONS",
    "GRU",
    "MLP",
    "Affine",
    "Attention",
    "BlockLinear",
    "Conv2D",
    "Conv3D",
    "DictConcat",
    "DictEmbed",
    "Embed",
    "Initializer",
    "Layer",
    "LayerScan",
    "Linear",
    "Norm",
    "Transformer",
    "WithLinear",
    "act",
    "attend",
    "available",
    "block_matmul",
    "cast",
    "compute_fans",
    "from_block_major",
    "init",
    "mask",
    "recall",
    "require_floating",
    "rms",
    "rotate",
    "standardize",
    "symexp",
    "symlog",
    "to_block_major",
    "where",
]
