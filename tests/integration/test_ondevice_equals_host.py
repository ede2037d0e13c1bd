"""The program on the device does what a loop on the host does, with the replay of the host."""

from functools import partial

import jax
import numpy as np
import pytest

from dreamerv3.agent import Dreamer
from dreamerv3.cli import command_line, factories
from embodied.core.replay.replay import Replay
from embodied.core.replay.window import annotate, copy_windows, find_windows
from embodied.core.schedule import UpdatePlan
from embodied.envs.pure import toy
from embodied.jax import nj, ring
from embodied.jax.ondevice import Evaluation, OnDevice, Sizes
from embodied.jax.ondevice.state import seed_keys
from embodied.jax.platform import prepare_process
from embodied.jax.pure_env import advance, initial, whole_obs_space

WORLDS, CAPACITY, STEPS, SEED = 3, 60, 16, 7
#: Latents and actions are the most likely ones, so that the two need not share random numbers.
OPTIONS = [
    "--configs", "debug", "--task", "jaxtoy_grid", "--agent.sampling", "mode",
    "--batch_size", "4", "--batch_length", "5", "--report_length", "5",
    "--agent.imag_length", "3", "--agent.opt.warmup", "0", "--agent.opt.lr", "1e-3",
]  # fmt: skip


class HostLoop:
    """Steps, stores and learns as the loop of the host, with the draws of the device."""

    def __init__(self, model, params, config, plan):
        self.model, self.params, self.config, self.plan = model, params, config, plan
        self.env, self.keys = toy.make("grid"), seed_keys(SEED)
        window = config.batch_length + config.replay_context
        self.replay = Replay(window, CAPACITY, online=True)
        self.shape = ring.Shape.fitting(WORLDS, window, CAPACITY, 10_000)
        self.step = jax.jit(partial(advance, self.env))
        self.policy, self.train = jax.jit(nj.pure(model.policy)), jax.jit(self._train)
        self.popped = self.updates = 0

    def run(self, steps):
        state = initial(self.env, WORLDS, self.keys["worlds"])
        carry = nj.pure(self.model.init_policy)({}, WORLDS)[1]
        action = {"action": np.zeros(WORLDS, np.int32)}
        reset = np.ones(WORLDS, bool)
        updates, after = self.plan.plan(0, steps, steps)
        for n in range(steps):
            state, obs = self.step(state, action, reset, self.keys["worlds"], n)
            obs = {k: np.asarray(x) for k, x in obs.items() if not k.startswith("log/")}
            carry, action, outs = self.policy(self.params, carry, obs, seed=np.zeros(2, np.uint32))[
                1
            ]
            reset = obs["is_last"]
            action = {k: np.where(reset, 0, x).astype(np.int32) for k, x in action.items()}
            rows = {k: np.asarray(x) for k, x in {**obs, **action, **outs}.items()}
            for world in range(WORLDS):
                self.replay.add({key: x[world] for key, x in rows.items()}, world)
                for _ in range(np.count_nonzero(after[n, : updates[n]] == world)):
                    self.update(n, world)

    def update(self, n, world):
        key = jax.random.fold_in(self.keys["replay"], self.updates)
        size = self.config.batch_size
        env, start, self.popped = ring.draw(self.shape, key, n, world, self.popped, size)
        data = self.windows(env, start)
        seed = jax.random.fold_in(self.keys["train"], self.updates)
        self.params, outs = self.train(self.params, data, seed)
        self.replay.update({key: np.asarray(x) for key, x in outs["replay"].items()})
        self.updates += 1

    def windows(self, env, start):
        streams = self.replay._streams
        pairs = zip(np.asarray(env).tolist(), np.asarray(start).tolist(), strict=True)
        addresses = [streams.writers[world].base + at for world, at in pairs]
        segments = find_windows(streams, enumerate(addresses), self.replay.length)
        return annotate(copy_windows(segments, len(addresses), self.replay.length))

    def _train(self, params, data, key):
        carry = nj.pure(self.model.init_train)({}, self.config.batch_size)[1]
        data = {**data, "consec": np.zeros(data["is_first"].shape, np.int32)}
        params, (_, outs, _) = nj.pure(self.model.train)(params, carry, data, seed=key, modify=True)
        return params, outs


@pytest.mark.slow
def test_same_draws_give_the_same_steps_latents_and_parameters():
    config = command_line.parse(OPTIONS).config
    options = factories.agent_config(config)
    platform = prepare_process(config.jax)
    env = toy.make("grid")
    sizes = Sizes([SEED], WORLDS, CAPACITY, 10_000, True, Evaluation(1, 0, True))
    program = OnDevice(Dreamer, env, options, platform, sizes)
    needed = config.batch_size * config.batch_length
    plans = [UpdatePlan(0.5, needed, WORLDS, program.window, CAPACITY) for _ in range(2)]
    obs_space = {k: x for k, x in whole_obs_space(env).items() if not k.startswith("log/")}
    model = Dreamer(obs_space, env.act_space, options, platform.dtype)
    host = HostLoop(model, program.save()[0]["agent"]["params"], config, plans[0])
    host.run(STEPS)
    assert 5 <= host.updates <= 9

    program.fetch(program.start(plans[1].plan(0, STEPS, STEPS), STEPS))
    saved = program.save()[0]
    assert saved["ondevice"]["position"] == [STEPS, int(host.popped), host.updates]
    for path, value in saved["agent"]["params"].items():
        np.testing.assert_allclose(value, host.params[path], rtol=1e-4, atol=1e-5, err_msg=path)
    stored = saved["ondevice"]["ring"]
    env = np.repeat(np.arange(WORLDS), 2)
    start = np.tile([1, STEPS - host.replay.length], WORLDS)
    expected = host.windows(env, start)
    for key, rows in stored.items():
        found = np.stack(
            [rows[e, s : s + host.replay.length] for e, s in zip(env, start, strict=True)]
        )
        if key == "dyn/deter":
            np.testing.assert_allclose(found, expected[key], rtol=1e-4, atol=1e-5)
        elif key not in ("is_first", "is_last"):  # Which windows mark at their edges.
            np.testing.assert_array_equal(found, expected[key], key)
