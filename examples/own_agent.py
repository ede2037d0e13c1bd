"""Train an agent of your own, Q-learning: python examples/own_agent.py."""

import jax
import jax.numpy as jnp

import dreamerv3
from embodied.jax import layers as nn
from embodied.jax import nj
from embodied.jax.model import Model
from embodied.jax.optimizer import Optimizer


class QAgent(Model):
    """Prefers what is worth more; docs/agents.md explains every part."""

    policy_keys = "^net/|^out/"  # The parameters that acting reads.

    def __init__(self, obs_space, act_space, config, dtype="float32"):
        self.inputs = nn.DictConcat({"cue": obs_space["cue"]}, dtype=dtype)
        self.net = nj.make("net", nn.MLP, 2, 64)
        self.out = nj.make("out", nn.Linear, int(act_space["action"].classes), outscale=0.0)
        self.opt = nj.make("opt", Optimizer, [self.net, self.out], lr=2e-3, warmup=0)

    init_policy = init_train = lambda self, batch_size: ()

    def policy(self, carry, obs, deterministic=False):
        noise = 0.0 if deterministic else jax.random.gumbel(nj.seed(), self.values(obs).shape)
        action = jnp.argmax(self.values(obs) / 0.1 + noise, -1)
        return carry, {"action": action.astype(jnp.int32)}, {}

    def train(self, carry, data):
        return carry, {}, self.opt(self.loss, data)

    def report(self, carry, data):
        return carry, {"loss": self.loss(data)}

    def values(self, obs):
        return self.out(self.net(self.inputs(obs))).astype(jnp.float32)

    def loss(self, data):
        values = self.values(data)
        chosen = jnp.take_along_axis(values, data["action"][..., None], -1)[:, :-1, 0]
        best = (1.0 - data["is_terminal"][:, 1:]) * values[:, 1:].max(-1)
        error = chosen - jax.lax.stop_gradient(data["reward"][:, 1:] + 0.5 * best)
        return jnp.mean(jnp.where(data["is_last"][:, :-1], 0.0, error**2))


def main(folder="~/logdir/own_agent", steps=3_000):
    """Train where a random agent gets 2.5 points per episode, and the best one 10."""
    options = {"agent_class": "own_agent:QAgent", "jax.platform": "cpu", "batch_length": 16}
    options["run"] = {"envs": 4, "train_ratio": 64}
    run = dreamerv3.train("toy_cue", steps=steps, logdir=folder, options=options)
    print("Mean of the last ten episodes:", run.scores.value[-10:].mean())
    return run


if __name__ == "__main__":
    main()
