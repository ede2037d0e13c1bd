"""Trains on several devices of a CPU that is split up, started by the tests as a program."""

import json
import sys

import numpy as np

from dreamerv3.agent import Dreamer
from dreamerv3.cli import factories
from dreamerv3.cli.command_line import parse
from embodied.core.checkpoint import Checkpoint
from embodied.core.streams import Stateless
from embodied.jax.jax_agent import JaxAgent
from embodied.jax.platform import join_hosts, prepare_process
from embodied.run.replicas import Replicas

OPTIONS = ["--configs", "debug", "--task", "toy_memory", "--jax.mock_devices", "4"]
OPTIONS += ["--jax.enable_policy", "False", "--agent.report", "False", "--agent.imag_length", "3"]
OPTIONS += ["--batch_length", "4", "--report_length", "4"]
OPTIONS += ["--agent.opt.lr", "1e-3", "--agent.opt.warmup", "0", "--.*\\.units", "16"]
OPTIONS += ["--.*\\.deter", "16", "--.*\\.hidden", "16", "--.*\\.stoch", "4"]

LAYOUTS = {
    "one": ([0], [1, 1, 1]),
    "mixed": ([3, 2, 1, 0], [1, 2, 2]),
    # Of two processes, each of which has two devices of its own: batch and parameters are split.
    "hosts": ([0, 1], [1, -1, 1]),
}


def make_agent(spaces, layout, hosts):
    devices, mesh = LAYOUTS[layout]
    flags = ["--jax.train_devices", *map(str, devices), "--jax.train_mesh", *map(str, mesh)]
    config = parse([*OPTIONS, *flags, *hosts]).config
    platform = prepare_process(config.jax, learning=True)
    return JaxAgent(Dreamer, *spaces, factories.agent_config(config), platform), config


def batches(agent, config):
    """Endless batches, the same for every agent; of several processes each has its rows."""
    rng = np.random.default_rng(0)
    spaces = {**agent.obs_space, **agent.act_space, **agent.ext_space}
    shape = (config.batch_size, config.batch_length + config.replay_context)
    share = config.batch_size // config.replicas
    rows = slice(config.replica * share, (config.replica + 1) * share)

    def draw():
        batch = {}
        for key, space in spaces.items():
            values = [[space.sample(rng) for _ in range(shape[1])] for _ in range(shape[0])]
            batch[key] = np.array(values, space.dtype).reshape((*shape, *space.shape))
        batch["consec"][:] = 0
        for key in ("is_first", "is_last", "is_terminal"):
            batch[key] = rng.uniform(size=shape) < 0.1
        batch["reward"] = rng.normal(size=shape).astype(np.float32)
        batch["dyn/deter"] = rng.normal(size=batch["dyn/deter"].shape).astype(np.float32)
        return {key: value[rows] for key, value in batch.items()}

    return agent.stream(Stateless(draw))


def losses(agent, stream, config, updates):
    carry, found = agent.init_train(config.batch_size // config.replicas), []
    for _ in range(updates + 1):
        carry, outs, metrics = agent.train(carry, next(stream))
        found.append(metrics)
    assert len(outs["replay"]["stepid"]) == config.batch_size // config.replicas
    return [float(metrics["opt/loss"]) for metrics in found if metrics]


def main(folder, names, updates, hosts):
    """Train with each layout, half of the updates before and half after a checkpoint."""
    config = parse([*OPTIONS, *hosts]).config
    join_hosts(config.jax.coordinator_address, config.replica, config.replicas)
    replicas = Replicas(config.replica, config.replicas, config.clock_addr)
    spaces = factories.make_spaces(config)
    result = {}
    for name in names:
        agent, config = make_agent(spaces, name, hosts)
        stream = batches(agent, config)
        replicas.meet()
        first = losses(agent, stream, config, updates // 2)
        # The second half starts from what the first agent of all has saved.
        checkpoint = Checkpoint(folder)
        checkpoint.register("agent", agent)
        checkpoint.load_or_save(0)
        checkpoint.wait()
        assert agent.save()["params"].keys() == agent.params.keys()
        result[name] = first + losses(agent, stream, config, updates // 2)
        kernels = [v for k, v in agent._params.items() if k.endswith("/kernel")]
        shares = [value.addressable_shards[0].data.size / value.size for value in kernels]
        result[f"{name}/share"] = float(np.mean(shares))
    replicas.close()
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2].split(","), int(sys.argv[3]), sys.argv[4:])
