"""A model of a few parameters for programs on devices, and the program around it."""

import jax
import jax.numpy as jnp
import numpy as np

from dreamerv3.cli.presets import Presets
from embodied.core.config import Config
from embodied.core.schedule import UpdatePlan
from embodied.core.space import Space
from embodied.envs.pure import toy
from embodied.jax import layers as nn
from embodied.jax import nj
from embodied.jax.model import Model
from embodied.jax.ondevice import Evaluation, OnDevice, Sizes
from embodied.jax.platform import prepare_process

CHUNK = 16
WORLDS = 3
CONFIG = Config(
    {
        "jax": Presets.load().defaults.jax,
        "batch_size": 4, "batch_length": 5, "report_length": 3, "replay_context": 1,
        "nonfinite": "stop", "rate": 0.05, "breaks": 0,
    }
)  # fmt: skip
NEEDED = CONFIG.batch_size * CONFIG.batch_length


class Tiny(Model):
    """Predicts rewards with a linear layer, samples actions by them, and stores what it predicts.

    The option `breaks` is the number of an update whose loss is not a number.
    """

    def __init__(self, obs_space, act_space, config, dtype):
        self.config = config
        self.net = nj.make("net", nn.Linear, 3)
        self.updates = nj.make("updates", nj.Variable, jnp.zeros, (), jnp.int32)

    @property
    def ext_space(self):
        return {
            "latent": Space(np.float32, (3,)),
            "consec": Space(np.int32),
            "stepid": Space(np.uint8, 20),
        }

    def init_policy(self, batch_size):
        return jnp.zeros(batch_size)

    def init_train(self, batch_size):
        return ()

    def policy(self, carry, obs, deterministic=False):
        values = self.net(self.features(obs))
        noise = 0.0 if deterministic else jax.random.gumbel(nj.seed(), values.shape)
        # Something that lives on from step to step.
        carry = jnp.where(obs["is_first"], 0.0, 0.9 * carry) + values[:, 0]
        latent = values + carry[:, None]
        return carry, {"action": (values + noise).argmax(-1)}, {"latent": latent}

    def train(self, carry, data):
        def loss():
            predicted = self.net(self.features(data))
            chosen = jnp.take_along_axis(predicted, data["action"][..., None], -1)[..., 0]
            noise = jax.random.normal(nj.seed(), chosen.shape)
            return jnp.square(chosen - data["reward"] - 0.1 * data["latent"][..., 0] - noise).mean()

        value, params, grads = nj.grad(loss, [self.net])()
        count = self.updates.read() + 1
        self.updates.write(count)
        value = jnp.where(count == self.config.breaks, jnp.nan, value)
        changed = {key: x - self.config.rate * grads[key] for key, x in params.items()}
        self.net.put(jax.tree.map(lambda x: jnp.where(jnp.isnan(value), jnp.nan, x), changed))
        latent = self.net(self.features(data))[:, 1:]
        outs = {"replay": {"stepid": data["stepid"][:, 1:], "latent": latent}}
        return carry, outs, {"loss/reward": value, "seen": data["latent"].sum()}

    def report(self, carry, data):
        return carry, {
            "error": jnp.abs(self.net(self.features(data))).mean(),
            "data": data["reward"],
        }

    def features(self, obs):
        place = obs["position"].astype(jnp.float32)
        return jnp.concatenate([place, obs["heading"][..., None].astype(jnp.float32)], -1)


class Runner:
    """A program with its plan, at a position."""

    def __init__(self, seeds=(0,), env=None, model=Tiny, capacity=60, ratio=0.5, **options):
        config = CONFIG.update(options)
        platform = prepare_process(config.jax)
        evaluation = Evaluation(4, 0, deterministic=False)
        sizes = Sizes(list(seeds), WORLDS, capacity, 10_000, True, evaluation)
        self.program = OnDevice(model, env or toy.make("grid"), config, platform, sizes)
        self.ratio = ratio
        self.begin = self.program.save()
        self.restart()

    def restart(self):
        """Go back to the beginning, with the same compiled program."""
        program = self.program
        program.load(self.begin)
        self.plan = UpdatePlan(self.ratio, NEEDED, WORLDS, program.window, program.capacity)
        self.n = 0

    def run(self, *counts):
        """Run chunks; return the results of each."""
        results = []
        for count in counts:
            handle = self.program.start(self.plan.plan(self.n, count, CHUNK), count)
            self.n += count
            results.append(self.program.fetch(handle))
        return results

    @property
    def state(self):
        """Copies of all arrays of all seeds, and the position."""
        return jax.tree.map(np.array, (self.program._position, self.program._state))
