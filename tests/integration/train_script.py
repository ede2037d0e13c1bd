"""Whole runs of the scripts without JAX, started by the tests as a process of its own."""

import contextlib
import ctypes
import functools
import json
import os
import pathlib
import resource
import sys
import threading
import time

import numpy as np

from embodied.core.config import Config
from embodied.core.interfaces import Agent, Env
from embodied.core.logger import Logger
from embodied.core.replay.replay import Replay
from embodied.core.schedule import Counter
from embodied.core.space import Space
from embodied.core.streams import Prefetch, Stateless
from embodied.core.writers import JSONLWriter, ScopeWriter, TerminalWriter
from embodied.run.collect import collect
from embodied.run.eval_only import eval_only
from embodied.run.offline import offline
from embodied.run.options import RunOptions
from embodied.run.parallel.scripts import parallel, parallel_envs, parallel_replay
from embodied.run.train import train
from embodied.run.train_eval import train_eval

DEFAULTS = {
    "logdir": "",
    "batch_size": 4,
    "batch_length": 8,
    "report_length": 8,
    "consec_report": 1,
    "replay_context": 1,
    "replay_strict": False,
    "steps": 1000,
    "duration": 0.0,
    "train_ratio": 16.0,
    "log_every": 120.0,
    "report_every": 0.0,
    "save_every": 900.0,
    "envs": 4,
    "report_batches": 1,
    "from_checkpoint": "",
    "from_checkpoint_regex": "",
    "usage": {"psutil": True},
    "parallel": "auto",
    "env_timeout": 60.0,
    "keep": 2,
    "keep_every": 0,
    "keep_best": False,
    "deterministic": True,
    "picture_every": 10,
    "eval_envs": 2,
    "eval_eps": 5,
    "eval": {"mode": "sample", "max_length": 0, "video": False},
    "fps": 15,
    "seed": 0,
    "from_replay": "",
    "overlap": 0,
    "replica": 0,
    "replicas": 1,
    "coordinator_address": "",
    "clock_addr": "",
    "clock_port": "",
    "actor_addr": "localhost:{auto}",
    "replay_addr": "localhost:{auto}",
    "logger_addr": "localhost:{auto}",
    "actor_batch": -1,
    "actor_threads": 1,
    "remote_envs": False,
    "remote_replay": False,
    "ipv6": False,
    "episode_timeout": 60.0,
    # Of the parts below.
    "script": "train",
    "length": 37,
    "longer": 0,
    "fail_at": 0,
    "update_seconds": 0.0,
    "hang": "",
    "disk": "",
    "chunksize": 1024,
}


class Walk(Env):
    """Pays 1 per step and shows its step and the last action."""

    def __init__(self, args, index):
        self._args, self._index = args, index
        self._count, self._done, self._steps = 0, True, 0
        self._length = args.length + index * args.longer

    @property
    def obs_space(self):
        return {
            "count": Space(np.float32),
            "reward": Space(np.float32),
            "is_first": Space(bool),
            "is_last": Space(bool),
            "is_terminal": Space(bool),
            "log/coins": Space(np.float32),
        }

    @property
    def act_space(self):
        return {"action": Space(np.float32, (2,), -1, 1), "reset": Space(bool)}

    def step(self, action):
        self._steps += 1
        if self._index == 0 and self._args.disk:
            _disturb(self._args, self._steps)
        if self._args.fail_at < 0 and self._steps == -self._args.fail_at:
            time.sleep(600)
        if self._args.fail_at and self._index == 2 and self._steps == self._args.fail_at:
            raise ZeroDivisionError("the env is broken")
        first = bool(action["reset"]) or self._done
        self._count = 0 if first else self._count + 1
        self._done = self._count == self._length
        return {
            "count": np.float32(self._count),
            "reward": np.float32(not first),
            "is_first": first,
            "is_last": self._done,
            "is_terminal": self._done,
            "log/coins": np.float32(2),
        }


class Counting(Agent):
    """Counts its updates; its loss mixes what it has seen, so that any difference shows."""

    def __init__(self, args):
        self._args = args
        self._params = np.zeros(4, np.float32)
        self._rng = np.random.default_rng(0)
        self._updates = 0
        if args.hang == "setup":
            _hang()

    @property
    def ext_space(self):
        return {"latent": Space(np.float32, (3,)), "stepid": Space(np.uint8, (20,))}

    def init_policy(self, batch_size):
        return 0

    def init_train(self, batch_size):
        return 0

    def init_report(self, batch_size):
        return 0

    def policy(self, carry, obs, mode="train"):
        assert not any(key.startswith("log/") for key in obs)
        size = len(obs["is_first"])
        # Evaluations do not disturb training.
        rng = self._rng if mode == "train" else np.random.default_rng(1)
        actions = {"action": rng.uniform(-1, 1, (size, 2)).astype(np.float32)}
        return carry + 1, actions, {"latent": np.full((size, 3), self._updates, np.float32)}

    def train(self, carry, data):
        if self._args.update_seconds:
            time.sleep(self._args.update_seconds)
        self._updates += 1
        seen = float(data["count"].sum() + data["latent"].sum() + data["action"].sum())
        self._params = np.float32(0.9) * self._params + np.float32(0.1 * seen)
        latent = np.full((*data["reward"].shape, 3), self._updates, np.float32)
        outs = {"replay": {"stepid": data["stepid"], "latent": latent}}
        with (
            contextlib.suppress(OSError),
            (pathlib.Path(self._args.logdir) / "losses.txt").open("a") as file,
        ):
            file.write(f"{self._updates} {self._params[0]!r}\n")
        return carry + 1, outs, {"loss/sum": self._params[0], "opt/updates": self._updates}

    def report(self, carry, data):
        video = np.zeros((3, 8, 8, 3), np.uint8)
        return carry, {"openloop/image": video, "loss/count": float(data["count"].mean())}

    def stream(self, source):
        return Prefetch(source, deterministic=self._args.deterministic)

    def save(self):
        rng = self._rng.bit_generator.state
        return {"params": {"w": self._params}, "rng": rng, "updates": self._updates}

    def load(self, data, regex=None):
        self._params = data["params"]["w"]
        if regex is None:
            self._rng.bit_generator.state = data["rng"]
            self._updates = data["updates"]


def make_replay(args, folder="replay"):
    return Replay(
        args.batch_length + args.replay_context,
        capacity=100_000,
        directory=pathlib.Path(args.logdir) / folder,
        chunksize=args.chunksize,
        online=True,
        continue_streams=True,  # After a restart, every environment begins an episode.
    )


def make_stream(args, replay, mode):
    return Stateless(replay.sample, args.batch_size, mode)


def make_logger(args):
    outputs = [
        TerminalWriter("score|loss"),
        JSONLWriter(args.logdir, "metrics.jsonl"),
        JSONLWriter(args.logdir, "scores.jsonl", "^episode/score$"),
        JSONLWriter(args.logdir, "eval_scores.jsonl", "^eval/episode/score$"),
        ScopeWriter(args.logdir),
    ]
    return Logger(Counter(), outputs, multiplier=2)


def main(options):
    args = Config(DEFAULTS).update(options)
    run_options = RunOptions.pick(args)
    agent, replay, env, stream, logger = (
        functools.partial(part, args)
        for part in (Counting, make_replay, Walk, make_stream, make_logger)
    )
    match args.script:
        case "eval_only":
            eval_only(agent, env, run_options)
        case "train_eval":
            replays = (replay, functools.partial(make_replay, args, "eval_replay"))
            train_eval(agent, replays, (env, env), stream, logger, run_options)
        case "offline":
            offline(agent, replay, stream, logger, run_options)
        case "parallel_envs":
            parallel_envs(env, run_options, range(args.envs))
        case "parallel_replay":
            parallel_replay(replay, run_options)
        case name:
            script = {"train": train, "collect": collect, "parallel": parallel}[name]
            script(agent, replay, env, stream, logger, run_options)


def _disturb(args, step):
    """Let files not grow for a while, or remove the folder of the run."""
    if args.disk == "removed" and step == 60:
        os.rename(args.logdir, f"{args.logdir}-removed")  # As it is written to all the time.
        print("Removed the folder.", flush=True)
    if args.disk == "full" and step in (60, 300):
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (500 if step == 60 else hard, hard))
        print("The disk is full." if step == 60 else "There is space again.", flush=True)


def _hang():
    """Stay in native code where Python cannot handle signals, like a compiler."""
    libc = ctypes.CDLL(None)
    mutex = ctypes.create_string_buffer(128)
    libc.pthread_mutex_init(mutex, None)
    libc.pthread_mutex_lock(mutex)
    threading.Timer(0.5, print, ["Hanging now."], {"flush": True}).start()
    libc.pthread_mutex_lock(mutex)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
