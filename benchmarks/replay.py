"""Speed and size of the replay buffer, beside a plain one, in the same run.

Prints one JSON line per figure. Ratios are only meaningful within a run, as machines differ.

    python benchmarks/replay.py --sizes 1m 12m --steps 50000
    python benchmarks/replay.py --other some_module:SomeReplay

A class given with `--other` is made by `cls(length=, capacity=, directory=, chunksize=)` and needs
`add(step, worker)`, `sample(batch)`, `update(data)`, and for the last figures `save()`, `load()`.
"""

import argparse
import collections
import gc
import importlib
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import psutil
import yardstick
from figures import report

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from embodied.core.replay import Replay

LENGTH = 65
BATCH = 16
CHUNKSIZE = 1024
SIZES = {"1m": (512, 4), "12m": (2048, 16)}
LAYOUTS = ("public", "compact", "compact_bfloat16")
SMALL_KEYS = {"height": (), "orientations": (14,), "velocity": (9,), "reward": (), "action": (6,)}
FLAGS = ("is_first", "is_last", "is_terminal", "reset")


class PlainReplay:
    """Per worker and key a list of values: what one writes in ten minutes."""

    def __init__(self, length: int, capacity: int, directory: str, chunksize: int) -> None:
        """Create an empty replay."""
        self.length, self.capacity = length, capacity
        self.directory, self.chunksize = pathlib.Path(directory), chunksize
        self.streams: dict[int, dict[str, list]] = {}
        self.items: collections.deque = collections.deque()
        self.rng = np.random.default_rng(0)

    def add(self, step: Mapping[str, Any], worker: int = 0) -> None:
        """Append a step."""
        step = {key: np.asarray(value) for key, value in step.items()}
        if worker not in self.streams:
            self.streams[worker] = {key: [] for key in (*step, "stepid")}
        stream = self.streams[worker]
        count = len(stream["stepid"])
        for key, value in step.items():
            stream[key].append(value.copy())
        stepid = worker.to_bytes(16, "big") + count.to_bytes(4, "big")
        stream["stepid"].append(np.frombuffer(stepid, np.uint8))
        if count + 1 >= self.length:
            self.items.append((worker, count + 1 - self.length))
        if len(self.items) > self.capacity:
            self.items.popleft()

    def sample(self, batch: int) -> dict[str, np.ndarray]:
        """Draw windows uniformly."""
        rows: dict[str, list] = collections.defaultdict(list)
        for index in self.rng.integers(0, len(self.items), batch):
            worker, start = self.items[index]
            for key, values in self.streams[worker].items():
                rows[key].append(np.stack(values[start : start + self.length]))
        return {key: np.stack(values) for key, values in rows.items()}

    def update(self, data: Mapping[str, np.ndarray]) -> None:
        """Overwrite values."""
        for row, stepids in enumerate(data["stepid"]):
            for time_, stepid in enumerate(stepids):
                worker = int.from_bytes(stepid[:16].tobytes(), "big")
                count = int.from_bytes(stepid[16:].tobytes(), "big")
                for key, value in data.items():
                    if key != "stepid":
                        self.streams[worker][key][count] = value[row, time_].copy()

    def save(self) -> None:
        """Write everything, one file per chunk."""
        for worker, stream in self.streams.items():
            for start in range(0, len(stream["stepid"]), self.chunksize):
                part = slice(start, start + self.chunksize)
                # Types of ml_dtypes do not survive np.savez.
                arrays = {key: _plain(np.stack(values[part])) for key, values in stream.items()}
                np.savez(self.directory / f"{worker}-{start}.npz", **arrays)

    def load(self, state: None = None) -> None:
        """Read everything."""
        for path in sorted(self.directory.iterdir()):
            worker = int(path.name.split("-")[0])
            with np.load(path) as file:
                arrays = {key: file[key] for key in file.files}
            stream = self.streams.setdefault(worker, {key: [] for key in arrays})
            for key, values in arrays.items():
                stream[key].extend(values)
        for worker, stream in self.streams.items():
            count = len(stream["stepid"]) - self.length + 1
            self.items.extend((worker, start) for start in range(count))


def _plain(values: np.ndarray) -> np.ndarray:
    return values.view(np.uint16) if values.dtype == ml_dtypes.bfloat16 else values


def make_steps(size: str, layout: str, count: int = 320) -> list[dict[str, Any]]:
    """Make transitions as the driver hands them over: rows of batched arrays."""
    deter, classes = SIZES[size]
    rng = np.random.default_rng(0)
    arrays: dict[str, np.ndarray] = {}
    for key, shape in SMALL_KEYS.items():
        arrays[key] = rng.normal(size=(count, *shape)).astype(np.float32)
    for key in FLAGS:
        arrays[key] = np.zeros(count, bool)
    dtype = ml_dtypes.bfloat16 if layout == "compact_bfloat16" else np.float32
    arrays["dyn/deter"] = rng.normal(size=(count, deter)).astype(dtype)
    stoch = rng.integers(0, classes, (count, 32))
    if layout == "public":
        arrays["dyn/stoch"] = np.eye(classes, dtype=np.float32)[stoch]
    else:
        arrays["dyn/stoch"] = stoch.astype(np.uint8)
    arrays["log/reward"] = arrays["reward"]
    return [{key: value[i] for key, value in arrays.items()} for i in range(count)]


def rate(function: Callable[[int], Any], seconds: float) -> float:
    """Calls per second, given the call's number."""
    calls, begin = 0, time.perf_counter()
    while True:
        for _ in range(8):
            function(calls)
            calls += 1
        spent = time.perf_counter() - begin
        if spent > seconds:
            return calls / spent


def measure(
    makers: Mapping[str, Callable[[str], Any]], steps: list[dict[str, Any]], args: Any
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield every figure with its value per implementation; each is the best of some rounds."""
    folders = {name: tempfile.mkdtemp(prefix="replay-benchmark-") for name in makers}
    try:
        yield from _measure(makers, folders, steps, args)
    finally:
        for folder in folders.values():
            shutil.rmtree(folder)


def _measure(
    makers: Mapping[str, Callable[[str], Any]],
    folders: Mapping[str, str],
    steps: list[dict[str, Any]],
    args: Any,
) -> Iterator[tuple[str, dict[str, float]]]:
    replays, memory = {}, {}
    process = psutil.Process()
    for name, make in makers.items():
        gc.collect()
        before = process.memory_info().rss
        replays[name] = make(folders[name])
        for count in range(args.steps):
            replays[name].add(steps[count % len(steps)], count % 16)
        memory[name] = (process.memory_info().rss - before) / args.steps
    yield "memory_bytes_per_step", memory
    if args.only_memory:
        return

    def rounds(function: Callable[[Any, int], Any]) -> dict[str, float]:
        best = dict.fromkeys(replays, 0.0)
        for _ in range(args.rounds):
            for name, replay in replays.items():
                # The replay is bound now, as the loop goes on.
                speed = rate(lambda count, r=replay: function(r, count), args.seconds)
                best[name] = max(best[name], speed)
        return best

    yield "batches_per_second", rounds(lambda replay, _: replay.sample(BATCH))
    latents = ("stepid", "dyn/deter", "dyn/stoch")
    data: dict[int, list[dict[str, np.ndarray]]] = {}
    for replay in replays.values():
        # Two in turns: what the learner writes back comes fresh from its caches.
        batches = [replay.sample(BATCH) for _ in range(2)]
        data[id(replay)] = [{key: x[key][:, 1:] for key in latents} for x in batches]
    yield (
        "write_backs_per_second",
        rounds(lambda replay, count: replay.update(data[id(replay)][count % 2])),
    )
    data.clear()
    saving, loading = {}, {}
    for name in list(replays):
        if not hasattr(replays[name], "save"):
            continue
        begin = time.perf_counter()
        state = replays[name].save()
        saving[name] = time.perf_counter() - begin
        replays[name] = None
        gc.collect()
        replay = makers[name](folders[name])
        begin = time.perf_counter()
        replay.load(state)
        replay.sample(1)
        loading[name] = time.perf_counter() - begin
        del replay
    yield "save_seconds", saving
    yield "load_seconds", loading
    for workers in (1, 16):
        replays.clear()
        for name, make in makers.items():
            replays[name] = make(folders[name])
        yield (
            f"adds_per_second_{workers}_workers",
            rounds(lambda replay, count, n=workers: replay.add(steps[count % 320], count % n)),
        )


def unit_of(figure: str) -> str:
    """Unit of a figure."""
    if figure.endswith("_seconds"):
        return "s"
    return "bytes" if figure.startswith("memory") else "1/s"


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["1m"])
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=["public", "compact"])
    parser.add_argument("--steps", type=int, default=50_000, help="steps to store, save and load")
    parser.add_argument("--seconds", type=float, default=0.5, help="per round and figure")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only_memory", action="store_true", help="leave out the speeds")
    parser.add_argument("--other", help="class to compare with, as module:Class")
    args = parser.parse_args()
    if len(args.sizes) * len(args.layouts) > 1:
        # A fresh process each, so that memory is measured from a clean start.
        for size in args.sizes:
            for layout in args.layouts:
                one = ["--sizes", size, "--layouts", layout]
                subprocess.run([sys.executable, __file__, *sys.argv[1:], *one], check=True)
        return
    run(args.sizes[0], args.layouts[0], args)


def run(size: str, layout: str, args: Any) -> None:
    """Measure and print everything for one size and layout."""
    classes: dict[str, Any] = {"ours": Replay, "plain": PlainReplay}
    if args.other:
        module, name = args.other.split(":")
        classes[name] = getattr(importlib.import_module(module), name)
    makers = {}
    for name, cls in classes.items():
        makers[name] = lambda folder, cls=cls: cls(
            length=LENGTH, capacity=5_000_000, directory=folder, chunksize=CHUNKSIZE
        )
    yardstick.report_without_device()
    for figure, values in measure(makers, make_steps(size, layout), args):
        others = {name: value for name, value in values.items() if name != "ours"}
        ratio = {name: round(values["ours"] / x, 3) for name, x in others.items() if x}
        others = {name: round(value, 4) for name, value in others.items()}
        name = f"replay/{size}/{layout}/{figure}"
        report(name, values["ours"], unit_of(figure), **others, ratio=ratio)


if __name__ == "__main__":
    main()
