"""Neural network layers, used as ``from embodied.jax import layers as nn``.

Parameters are float32; computation happens in the dtype of the input. Layers that turn raw inputs
into activations (`DictConcat`, `DictEmbed`, `Embed`) take the compute dtype as an option.

- `functions.py`: functions without parameters.
- `layer.py`: initial values and base classes.
- `inputs.py`: raw inputs to activations.
- `linear.py`, `conv.py`, `norm.py`, `mlp.py`, `gru.py`: the layers of Dreamer.
- `transformer.py`: attention, and a scan over equal layers, for models of your own.
"""

from embodied.jax.layers.conv import Conv2D, Conv3D
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
from embodied.jax.layers.inputs import DictConcat, DictEmbed, Embed
from embodied.jax.layers.layer import (
    Affine,
    Init,
    Initializer,
    Layer,
    WithLinear,
    compute_fans,
    init,
)
from embodied.jax.layers.linear import (
    BlockLinear,
    Linear,
    block_matmul,
    from_block_major,
    to_block_major,
)
from embodied.jax.layers.mlp import MLP
from embodied.jax.layers.norm import Norm, standardize
from embodied.jax.layers.transformer import Attention, LayerScan, Transformer, attend, rotate

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
    "Init",
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
