"""Times one gradient step on random batches of the control suite's walker.

    python benchmarks/train_step.py [--sizes size1m size12m] [--dtype float32] [--profile]
        [--imag_parts auto]

With `--profile`, the parts of the step are timed on their own: the world model forward and
backward, imagination, the heads and losses on imagined states with their gradients, and the
optimizer. Each has its share of the whole step; compiled apart, they need not add up to it.
"""

import argparse
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import yardstick
from figures import report

from dreamerv3.agent import Dreamer
from dreamerv3.cli.presets import Presets
from dreamerv3.imagination import imagine
from embodied.core.config import Config
from embodied.core.space import Space
from embodied.jax import nj
from embodied.jax.platform import prepare_process

FLAGS = {key: Space(bool) for key in ("is_first", "is_last", "is_terminal")}
OBS = {
    "height": Space(np.float32),
    "orientations": Space(np.float32, 14),
    "velocity": Space(np.float32, 9),
    "reward": Space(np.float32),
    **FLAGS,
}
ACT = {"action": Space(np.float32, 6, -1, 1)}


class Benchmark:
    """A model of one size with a batch to learn from."""

    def __init__(self, size: str, dtype: str, repeats: int = 5, imag_parts: str = "auto") -> None:
        """Create parameters and a batch; durations are the median of some repeats."""
        self.repeats = repeats
        presets = Presets.load()
        config = presets.defaults.update(presets.changes(size))
        config = config.update({"agent.imag_parts": imag_parts})
        self.config = config
        options = Config({**config.agent, "replay_context": config.replay_context})
        self.model = Dreamer(OBS, ACT, options, dtype)
        self.data = jax.device_put(self.batch())
        create = nj.init(lambda data: self.model.train(self.carry(), data))
        self.params = jax.jit(lambda data: create({}, data, seed=0))(self.data)

    def carry(self) -> Any:
        """Return a fresh carry."""
        return self.model.init_train(self.config.batch_size)

    def batch(self) -> dict[str, np.ndarray]:
        """Draw a random batch without episode ends."""
        rng = np.random.default_rng(0)
        shape = (self.config.batch_size, self.config.batch_length + self.config.replay_context)
        spaces = {**OBS, **ACT, **self.model.ext_space}
        data = {k: np.zeros((*shape, *s.shape), s.dtype) for k, s in spaces.items()}
        for key in ("height", "orientations", "velocity", "reward", "action"):
            data[key] = rng.normal(size=data[key].shape).astype(np.float32)
        return data

    def train(self) -> float:
        """Time the whole step, in milliseconds."""
        run = nj.pure(self.model.train)
        step = jax.jit(
            lambda params, carry, data: run(params, carry, data, seed=0, modify=True),
            donate_argnums=(0, 1),
        )
        state = [self.params, self.carry()]

        def call() -> Any:
            state[0], (state[1], _, metrics) = step(*state, self.data)
            return metrics

        return yardstick.device_milliseconds(call, self.repeats)

    def part(self, fn: Any, *args: Any) -> tuple[float, Any]:
        """Time a function that uses modules; return its result, too."""
        call = jax.jit(lambda params, *args: nj.pure(fn)(params, *args, seed=0, modify=True)[1])
        return yardstick.device_milliseconds(lambda: call(self.params, *args)), call(
            self.params, *args
        )

    def profile(self) -> dict[str, float]:
        """Time the parts of the step."""
        model = self.model
        state, obs, previous = self.part(lambda: model.split(self.carry(), self.data))[1]

        def world_model() -> Any:
            def loss() -> Any:
                tokens = model.enc(obs)
                first = obs["is_first"]
                _, feat = model.dyn.observe(state, tokens, previous, first, model.draw)
                losses, _ = model.world_model_losses(feat, obs)
                return sum(value.mean() for value in losses.values()), feat

            return nj.grad(loss, model.opt.modules[:5], has_aux=True)()

        world, (*_, feat) = self.part(world_model)
        starts = {k: x.reshape((-1, *x.shape[2:])) for k, x in feat.items()}
        length = self.config.agent.imag_length
        imagination, _ = self.part(
            lambda starts: imagine(model.dyn, model.pol, starts, length, model.draw), starts
        )

        def actor_critic(feat: Any) -> Any:
            def loss() -> Any:
                losses, *_ = model.actor_critic_losses(feat, obs, training=True)
                return sum(value.mean() for value in losses.values())

            return nj.grad(loss, [model.pol, model.val])()

        def optimizer(scale: Any) -> Any:
            def loss() -> Any:
                params = [x for module in model.opt.modules for x in module.values.values()]
                return scale * sum(jnp.square(value).sum() for value in params)

            return model.opt(loss)

        both, _ = self.part(actor_critic, feat)
        return {
            "world model": world,
            "imagination": imagination,
            "heads and losses": both - imagination,
            "optimizer": self.part(optimizer, jnp.float32(1))[0],
        }


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", nargs="+", default=["size1m", "size12m"])
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--imag_parts", default="auto", help="agent.imag_parts: steps or whole")
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    prepare_process(Presets.load().defaults.jax, learning=True)
    yardstick.report_yardsticks()
    for size in args.sizes:
        bench = Benchmark(size, args.dtype, args.repeats, args.imag_parts)
        parts = bench.profile() if args.profile else {}
        whole = bench.train()
        variant = "" if args.imag_parts == "auto" else f"/{args.imag_parts}"
        name = f"train_step/{size}/{args.dtype}{variant}"
        for part, value in parts.items():
            report(f"{name}/{part}", value, "ms", share=round(value / whole, 3))
        report(name, whole, "ms")


if __name__ == "__main__":
    main()
