"""Kills a small run at random moments and starts it again, many times.

    python benchmarks/soak.py --kills 200

Every kill is by SIGKILL, SIGTERM or SIGINT, while the program compiles, collects and trains, or
writes a checkpoint. After each one, no process may be left, the last complete checkpoint may not
be older than before, and every window of the replay has to be a piece of one stream. Every start
has to continue at that checkpoint. At the end, no temporary file may be left. The run takes
`--seconds` at most, and goes on with what an earlier one has left in `--folder`.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import pathlib
import random
import re
import signal
import sys
import tempfile
import time
from collections.abc import Sequence

import numpy as np
from program import ROOT, FailedError, Program

sys.path.insert(0, str(ROOT))

from embodied.core.checkpoint import Checkpoint
from embodied.core.replay.replay import Replay

OPTIONS = (
    "--configs", "debug", "--env.dummy.size", "16", "16", r"--.*\.mults", "2", "4", "--run.steps",
    "1e9", "--run.train_ratio", "64", "--run.log_every", "-1", "--run.save_every", "1",
    "--run.report_every", "3", "--replay.size", "2000", "--replay.chunksize", "128",
    "--env.dummy.length", "37", "--run.envs", "2", "--logger.filter", "none", "--agent.report",
    "False",
)  # fmt: skip
LENGTH = 11
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
MOMENTS = ("compile", "loop", "save")
STARTED = "^(Continuing at|Starting a new run)"
LOOPING = "^Step "


@dataclasses.dataclass
class Figures:
    """What has happened so far.

    Attributes:
      kills: Kills by moment and signal.
      exit_seconds: Longest time from a signal to the end of the process, by signal.
      setup_seconds: Longest time from the start to the first log line.
      step: Last step that was continued at.
    """

    kills: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    exit_seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    setup_seconds: float = 0.0
    step: int = 0


def run_and_kill(
    folder: pathlib.Path, rng: random.Random, moment: str, number: int, figures: Figures
) -> None:
    """Start the program, kill it at a random point of a moment, and check what is left."""
    before = saved_step(folder)
    program = Program(OPTIONS, folder, folder.parent / "cache")
    try:
        if moment == "compile":
            time.sleep(rng.uniform(0, figures.setup_seconds or 3.0))
        else:
            _, found = program.wait_for(STARTED, 100)
            figures.step = check_continued(found.string, before)
            program.wait_for(LOOPING, 60)
            passed = time.monotonic() - program.started
            figures.setup_seconds = max(figures.setup_seconds, passed)
            if moment == "loop":
                time.sleep(rng.uniform(0, 2.0))
            else:
                wait_for_save(folder, rng)
        completed = saved_step(folder)
        seconds, left = program.end(number)
    finally:
        program.kill()
    if left:
        raise FailedError(f"processes {left} are left")
    if "Traceback" in "".join(program.lines):
        raise FailedError("it printed an error:\n" + "".join(program.lines[-40:]))
    if saved_step(folder) < completed:
        raise FailedError(f"the checkpoint of step {completed} is gone")
    check_replay(folder, rng)
    name = signal.Signals(number).name
    figures.kills[f"{moment} {name}"] += 1
    figures.exit_seconds[name] = max(figures.exit_seconds.get(name, 0), round(seconds, 2))


def saved_step(folder: pathlib.Path) -> int:
    """Step of the checkpoint that the next start continues at, -1 if there is none."""
    snapshot = Checkpoint(folder / "ckpt").peek()
    return -1 if snapshot is None else snapshot.step


def check_continued(line: str, saved: int) -> int:
    """Return the step that a start continues at, which has to be that of the last checkpoint."""
    found = re.search(r"Continuing at step ([\d,]+)", line)
    step = int(found[1].replace(",", "")) if found else -1
    if step != saved:
        raise FailedError(f"continued at step {step}, expected {saved}")
    return step


def wait_for_save(folder: pathlib.Path, rng: random.Random) -> None:
    """Return while a checkpoint is being written, as far as one can hit that."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if any((folder / "ckpt").glob("tmp-*")):
            time.sleep(rng.uniform(0, 0.01))
            return
        time.sleep(0.0005)


def check_replay(folder: pathlib.Path, rng: random.Random) -> None:
    """Load the replay of the last checkpoint and look at windows."""
    checkpoint = Checkpoint(folder / "ckpt")
    if checkpoint.peek() is None:
        return
    _, states = checkpoint.read(keys=["replay"])
    replay = Replay(LENGTH, 2000, folder / "replay", 128, online=True, seed=rng.getrandbits(30))
    replay.load(states["replay"])
    if not len(replay):
        return
    batch = replay.sample(256, "report")
    count, first = batch["count"], batch["is_first"]
    steps = count[:, 1:] == np.where(first[:, 1:], 0, count[:, :-1] + 1)
    if not steps.all() or not all(np.isfinite(batch[key]).all() for key in ("vector", "reward")):
        raise FailedError("a window of the replay jumps")


def leftovers(folder: pathlib.Path) -> list[str]:
    """Temporary files below a folder."""
    names = (path for path in folder.rglob("*") if re.search(r"tmp|partial|lock", path.name))
    return [str(path.relative_to(folder)) for path in names]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the soak and print its figures as one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=7200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=pathlib.Path, help="of the run; a new one by default")
    options = parser.parse_args(argv)
    rng, figures = random.Random(options.seed), Figures()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or pathlib.Path(temporary) / "run"
        folder.parent.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + options.seconds
        for kill in range(options.kills):
            if time.monotonic() > deadline:
                break
            moment = MOMENTS[1] if kill == 0 else rng.choice(MOMENTS)
            number = rng.choice(SIGNALS)
            try:
                run_and_kill(folder, rng, moment, number, figures)
            except FailedError as error:
                name = signal.Signals(number).name
                raise SystemExit(f"Kill {kill} ({name}, {moment}): {error}") from None
        # A last start that ends by itself tidies up.
        run_and_kill(folder, rng, "loop", signal.SIGINT, figures)
        left = leftovers(folder)
    result = {
        "kills": sum(figures.kills.values()),
        "by": dict(sorted(figures.kills.items())),
        "longest_exit_seconds": figures.exit_seconds,
        "longest_setup_seconds": round(figures.setup_seconds, 2),
        "last_step": figures.step,
        "left_files": left,
    }
    print(json.dumps(result))
    if left:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
