"""What a report shows besides losses: gradient norms, and videos of what the model believes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import optax

from dreamerv3.rssm import features
from embodied.jax import nj

if TYPE_CHECKING:
    from dreamerv3.agent import Dreamer

Arrays = dict[str, jax.Array]

BORDER = 2
LONGEST_PAUSE = 10


def gradient_norms(model: Dreamer, state: Arrays, obs: Arrays, previous: Arrays) -> Arrays:
    """Norm of the gradient of each loss with respect to all parameters, as ``gradnorm/<loss>``.

    Args:
      model: The agent.
      state: Latent state before the sequences, [B, ...].
      obs: Observations, [B, T, ...].
      previous: Action before each observation, [B, T, ...].
    """
    norms = {}
    for key in model.scales:

        def single(key: str = key) -> jax.Array:
            return model.losses(state, obs, previous, training=False)[0][key].mean()

        _, _, grads = nj.grad(single, model.opt.modules)()
        norms[f"gradnorm/{key}"] = optax.global_norm(grads)
    return norms


def open_loop(model: Dreamer, state: Arrays, obs: Arrays, previous: Arrays) -> Arrays:
    """Video per image, ``openloop/<key>``: observe half of the window, imagine the other half.

    Arguments are those of `gradient_norms`.
    """
    half = obs["is_first"].shape[1] // 2
    tokens = model.enc(obs)
    past = jax.tree.map(lambda x: x[:, :half], (tokens, previous, obs["is_first"]))
    state, observed = model.dyn.observe(state, *past)
    _, imagined = model.dyn.imagine_actions(state, {k: x[:, half:] for k, x in previous.items()})
    before, after = model.dec(observed), model.dec(imagined)
    videos = {}
    for key in model.dec.images:
        predicted = jnp.concatenate([before[key].pred(), after[key].pred()], 1)
        videos[f"openloop/{key}"] = open_loop_video(model.target(key, obs[key]), predicted, half)
    return videos


def open_loop_video(true: jax.Array, predicted: jax.Array, observed: int) -> jax.Array:
    """Draw recorded, predicted and error frames below each other, rows side by side (design 5).

    Args:
      true: Recorded images between 0 and 1, [B, T, height, width, channels].
      predicted: Predicted images between 0 and 1, of the same shape.
      observed: Number of first frames for which the model saw the recording. Their border is
        green; that of the frames which it imagined is red.

    Returns:
      uint8 video [time, 3 * height + border, B * (width + border), channels], with black frames
      at the end as a pause before it repeats.
    """
    true = jnp.round(255 * true)
    predicted = (255 * predicted).astype(jnp.uint8).astype(jnp.float32)
    error = (predicted - true + 255) / 2
    video = jnp.concatenate([true, predicted, error], 2).astype(jnp.uint8)
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
    """Red (0) or green (1); dark or bright where there are no three color channels."""
    if channels < 3:
        return jnp.full((channels,), 255 if index else 127, jnp.uint8)
    return jnp.zeros((channels,), jnp.uint8).at[index].set(255).at[3:].set(255)


def predict(model: Dreamer, carry: tuple[Arrays, Arrays], actions: Arrays) -> Arrays:
    """Decoded predictions for given actions; see `dreamerv3.policy.Policy.imagine`."""
    state, _ = carry
    _, feat = model.dyn.imagine_actions(state, actions)
    x = features(feat)
    predicted = {key: dist.pred() for key, dist in model.dec(feat).items()}
    for key in model.dec.images:
        if model.obs_space[key].discrete:
            predicted[key] = jnp.round(255 * predicted[key]).astype(jnp.uint8)
    return {**predicted, "reward": model.rew(x, 2).pred(), "continue": model.con(x, 2).prob(1)}
