"""What a report shows besides losses: gradient norms, and videos of what the model believes."""

from collections.abc import Callable, Iterable, Sequence

import jax
import jax.numpy as jnp
import optax

from dreamerv3.decoder import Decoder
from dreamerv3.encoder import Encoder
from dreamerv3.rssm import RSSM, Draw
from embodied.jax import nj

Arrays = dict[str, jax.Array]

BORDER = 2
LONGEST_PAUSE = 10


def gradient_norms(
    losses: Callable[[], Arrays], keys: Iterable[str], modules: Sequence[nj.Module]
) -> Arrays:
    """Norm of the gradient of the mean of each loss, as ``gradnorm/<loss>``.

    Args:
      losses: Computes the losses by key.
      keys: Keys of the losses.
      modules: What the gradients are with respect to.
    """

    def single(key: str) -> jax.Array:
        return losses()[key].mean()

    gradients = {key: nj.grad(single, modules)(key)[2] for key in keys}
    return {f"gradnorm/{key}": optax.global_norm(grads) for key, grads in gradients.items()}


def open_loop(
    enc: Encoder,
    dyn: RSSM,
    dec: Decoder,
    draw: Draw,
    target: Callable[[str, jax.Array], jax.Array],
    state: Arrays,
    obs: Arrays,
    previous: Arrays,
) -> Arrays:
    """Video per image, ``openloop/<key>``: observe half of the window, imagine the other half.

    Args:
      enc: Encoder.
      dyn: World model.
      dec: Decoder.
      draw: How latents are drawn.
      target: What the decoder should predict, of an observation key and its values.
      state: Latent state before the sequences, [B, ...].
      obs: Observations, [B, T, ...].
      previous: Action before each observation, [B, T, ...].
    """
    half = obs["is_first"].shape[1] // 2
    inputs = (enc(obs), previous, obs["is_first"])
    tokens, actions, reset = jax.tree.map(lambda x: x[:, :half], inputs)
    state, observed = dyn.observe(state, tokens, actions, reset, draw)
    _, imagined = dyn.imagine_actions(state, {k: x[:, half:] for k, x in previous.items()}, draw)
    before, after = dec(observed), dec(imagined)
    videos = {}
    for key in dec.images:
        predicted = jnp.concatenate([before[key].pred(), after[key].pred()], 1)
        videos[f"openloop/{key}"] = open_loop_video(target(key, obs[key]), predicted, half)
    return videos


def open_loop_video(true: jax.Array, predicted: jax.Array, observed: int) -> jax.Array:
    """Draw recorded, predicted and error frames below each other, rows side by side.

    Args:
      true: Recorded images between 0 and 1, [B, T, height, width, channels].
      predicted: Predicted images between 0 and 1, of the same shape.
      observed: Number of first frames for which the model saw the recording. Their border is
        green; that of the frames which it imagined is red.

    Returns:
      uint8 video [time, 3 * height + border, B * (width + border), channels], with black frames
      at the end as a pause before it repeats. Gray images become pictures with three channels, for
      the sake of the border.
    """
    true = jnp.round(255 * true)
    predicted = (255 * predicted).astype(jnp.uint8).astype(jnp.float32)
    error = (predicted - true + 255) / 2
    video = jnp.concatenate([true, predicted, error], 2).astype(jnp.uint8)
    if video.shape[-1] == 1:
        video = video.repeat(3, -1)
    rows, length, height, width, channels = video.shape
    observing = jnp.arange(length) < observed
    color = jnp.where(observing[:, None], _color(1, channels), _color(0, channels))
    frame = jnp.broadcast_to(
        color[None, :, None, None],
        (rows, length, height + 2 * BORDER, width + 2 * BORDER, channels),
    )
    video = frame.at[:, :, BORDER:-BORDER, BORDER:-BORDER].set(video)
    pause = jnp.zeros_like(video[:, : min(length, LONGEST_PAUSE)])
    video = jnp.concatenate([video, pause], 1)
    return video.transpose((1, 2, 0, 3, 4)).reshape((video.shape[1], video.shape[2], -1, channels))


def _color(index: int, channels: int) -> jax.Array:
    """Red (0) or green (1); dark or bright where there are two channels."""
    if channels < 3:
        return jnp.full((channels,), 255 if index else 127, jnp.uint8)
    return jnp.zeros((channels,), jnp.uint8).at[index].set(255).at[3:].set(255)
