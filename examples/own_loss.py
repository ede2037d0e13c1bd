"""Train with a loss of your own: a subclass of the agent that adds a term.

python examples/own_loss.py
"""

import jax.numpy as jnp

import dreamerv3
from dreamerv3.agent import Dreamer


class CalmDreamer(Dreamer):
    """Also keeps the recurrent state from changing more than it has to."""

    def __init__(self, obs_space, act_space, config, dtype="float32"):
        super().__init__(obs_space, act_space, config, dtype)
        self.scales["calm"] = 0.01  # Each loss has a scale; others are in agent.loss_scales.

    def world_model_losses(self, feat, obs):
        losses, metrics = super().world_model_losses(feat, obs)
        state = feat["deter"].astype(jnp.float32)  # [B, T, D]
        change = jnp.square(jnp.diff(state, axis=1, prepend=state[:, :1])).mean(-1)
        losses["calm"] = jnp.where(obs["is_first"], 0.0, change)  # [B, T], as all of them.
        return losses, metrics


def main(folder="~/logdir/own_loss", steps=5_000, options=None):
    """Train; the loss is logged as `train/loss/calm`."""
    run = dreamerv3.train(
        "embodied.envs.catch:Catch",
        presets="demo",
        steps=steps,
        logdir=folder,
        options={"agent_class": "own_loss:CalmDreamer", **(options or {})},
    )
    print("Loss of calmness, at the steps of log lines:")
    for step, value in zip(*run.metrics["train/loss/calm"], strict=True):
        print(f"{step:>8,} {value:.4f}")
    return run


if __name__ == "__main__":
    main()
