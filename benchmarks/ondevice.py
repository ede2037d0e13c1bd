"""Compares the script ondevice with the host loop, and its loop with the updates in it.

    python benchmarks/ondevice.py [--only loop host seeds] [--options --configs navix]

- `loop`: time of the compiled loop besides its updates and its steps of environments and policy,
  both compiled alone, as a share of the updates; one update per step of all environments.
- `host`: environment steps per second of whole runs against those of the script train, on the same
  task with the same options: with updates, with the policy only, with random actions.
- `seeds`: environment steps per second of 8 seeds together against those of one.

What is compared alternates, so that a change of the machine hits both; the figures are medians of
rounds, and ratios are those of the medians.
"""

import argparse
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from figures import report
from program import ROOT, FailedError, Program

STEP = r"^Step (?P<step>[\d,]+) of .*\| (?P<updates>[\d,]+) updates"
SHARED = ("--run.log_every", "1", "--run.report_every", "0", "--logger.outputs", "jsonl")
DEFAULT = (
    "--configs",
    "size1m",
    "--task",
    "jaxtoy_grid",
    "--run.envs",
    "16",
    "--replay.size",
    "1e5",
)
VARIANTS = {
    "with_updates": (),
    "policy_only": ("--run.train_ratio", "0"),
    "random": ("--run.train_ratio", "0", "--random_agent", "True"),
}
SEEDS = 8
#: Updates, or log lines without updates, that are not counted; the first ones fill caches.
WARM_UP = 3
#: Iterations of the compiled loop that are timed together.
ITERATIONS = 16


def rate(options: tuple[str, ...], seconds: float, learns: bool = True) -> float:
    """Environment steps per second of a whole run, of each seed.

    Args:
      options: Command line of the program.
      seconds: How long to measure.
      learns: Whether to wait for updates first.

    Raises:
      FailedError: If the program ends before.
    """
    with tempfile.TemporaryDirectory(prefix="ondevice-benchmark-") as temporary:
        program = Program([*SHARED, *options], pathlib.Path(temporary) / "run", "auto")
        try:
            first, lines = None, 0
            while True:
                moment, found = program.wait_for(STEP, 900)
                step, updates = (int(found[key].replace(",", "")) for key in ("step", "updates"))
                lines += 1
                if first is None and (updates if learns else lines) >= WARM_UP:
                    first = (moment, step)
                if first is not None and moment - first[0] >= seconds:
                    return (step - first[1]) / (moment - first[0])
        finally:
            program.kill()


def alternate(measures: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Take measures in turns; return their medians."""
    found: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            found[name].append(measure())
    return {name: statistics.median(values) for name, values in found.items()}


def compare_with_host(options: tuple[str, ...], seconds: float, rounds: int) -> None:
    """Report rates of both scripts, and their ratio, for each variant."""
    for variant, extra in VARIANTS.items():
        learns = variant == "with_updates"
        measures = {
            script: partial(rate, ("--script", script, *options, *extra), seconds, learns)
            for script in ("ondevice", "train")
        }
        rates = alternate(measures, rounds)
        for script, value in rates.items():
            report(f"ondevice/host/{variant}/{script}", value, "env steps/s", rounds=rounds)
        report(f"ondevice/host/{variant}", rates["ondevice"] / rates["train"], "x", rounds=rounds)


def compare_seeds(options: tuple[str, ...], seconds: float, rounds: int) -> None:
    """Report the rate of all seeds together, and its ratio to that of one."""
    measures = {
        f"{count}": lambda count=count: (
            count
            * rate(("--script", "ondevice", *options, "--ondevice.seeds", str(count)), seconds)
        )
        for count in (1, SEEDS)
    }
    rates = alternate(measures, rounds)
    for count, value in rates.items():
        report(f"ondevice/seeds/{count}", value, "env steps/s", rounds=rounds)
    report("ondevice/seeds", rates[f"{SEEDS}"] / rates["1"], "x", rounds=rounds)


def compare_loop(options: tuple[str, ...], rounds: int) -> None:
    """Report times of the loop and of its parts compiled alone, in this process."""
    sys.path.insert(0, str(ROOT))
    import jax
    import numpy as np

    from dreamerv3.cli import command_line, factories
    from embodied.core.schedule import Plan
    from embodied.jax import nj
    from embodied.jax.params import zeros
    from embodied.jax.pure_env import advance

    config = command_line.parse(["--script", "ondevice", *options]).config
    program: Any = factories.make_program(config.update({"run.steps": 1e5}))
    loop, worlds = program._loop, program.worlds
    size = config.batch_size
    data = zeros(loop.spaces, size, program.window)
    data |= {"stepid": np.zeros((size, program.window, 2), np.int32)}
    data |= {"consec": np.zeros((size, program.window), np.int32)}
    state = jax.tree.map(lambda x: np.array(x[0]), program._state)
    every = np.ones(ITERATIONS, np.int32), np.full((ITERATIONS, 1), worlds - 1, np.int32)

    @jax.jit
    def updates(params: Any, count: Any) -> Any:
        def update(k: Any, params: Any) -> Any:
            return loop._learn_from(params, data, jax.random.fold_in(state.keys["train"], k))[0]

        return jax.lax.fori_loop(0, count, update, params)

    @jax.jit
    def steps(params: Any, count: Any) -> Any:
        def step(n: Any, carried: Any) -> Any:
            inner, carry, action, reset = carried
            inner, obs = advance(loop._env, inner, action, reset, state.keys["worlds"], n)
            policy = nj.pure(loop._model.policy)
            seen = {key: obs[key] for key in loop._seen}
            key = jax.random.fold_in(state.keys["policy"], n)
            carry, action, _ = policy(params, carry, seen, seed=key)[1]
            return inner, carry, action, obs["is_last"]

        first = state.worlds, state.carry, state.action, state.reset
        return jax.lax.fori_loop(0, count, step, first)

    def chunk() -> float:
        start = time.perf_counter()
        program.fetch(program.start(Plan(*every), ITERATIONS))
        return time.perf_counter() - start

    def alone(fn: Callable[..., Any]) -> float:
        start = time.perf_counter()
        jax.block_until_ready(fn(state.params, ITERATIONS))
        return time.perf_counter() - start

    for _ in range(3 * program.window // ITERATIONS + 1):  # There has to be something to draw.
        program.fetch(program.start(Plan(np.zeros_like(every[0]), every[1]), ITERATIONS))
    measures = {
        "chunk": chunk,
        "updates": lambda: alone(updates),
        "steps": lambda: alone(steps),
    }
    alternate(measures, 2)
    times = alternate(measures, rounds)
    for name, value in times.items():
        report(f"ondevice/loop/{name}", 1000 * value / ITERATIONS, "ms", rounds=rounds)
    rest = times["chunk"] - times["updates"] - times["steps"]
    report("ondevice/loop", 100 * rest / times["updates"], "% of the updates", rounds=rounds)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    kinds = ["loop", "host", "seeds"]
    parser.add_argument("--only", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--options", nargs=argparse.REMAINDER, default=[], help="of the program")
    args = parser.parse_args()
    options = tuple(args.options) or DEFAULT
    try:
        if "host" in args.only:
            compare_with_host(options, args.seconds, args.rounds)
        if "seeds" in args.only:
            compare_seeds(options, args.seconds, args.rounds)
    except FailedError as error:
        raise SystemExit(f"A run ended too early: {error}") from None
    if "loop" in args.only:
        compare_loop(options, 2 * args.rounds + 1)


if __name__ == "__main__":
    main()
