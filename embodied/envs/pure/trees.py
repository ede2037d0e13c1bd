"""Helpers of the adapters of pure environments."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def strong(tree: Any) -> Any:
    """Give every array the type that it has by itself, so that all steps return the same."""
    return jax.tree.map(lambda x: jax.lax.convert_element_type(x, jnp.asarray(x).dtype), tree)


def to_picture(image: jax.Array, size: tuple[int, int]) -> jax.Array:
    """Scale a picture, uint8 or float32 from 0 to 1, to a height and width in uint8."""
    scale = 1 if image.dtype == jnp.uint8 else 255
    resized = jax.image.resize(
        image.astype(jnp.float32) * scale, (*size, image.shape[-1]), "linear"
    )
    return jnp.clip(jnp.round(resized), 0, 255).astype(jnp.uint8)
