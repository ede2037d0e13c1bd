"""Times whole runs: environment steps per second of a program that acts, stores and learns.

    python benchmarks/end_to_end.py [--sizes size1m] [--seconds 30] [--options --run.envs 4]

At train ratio 32, without pictures and with those that the log of the control suite can have, if
OpenGL works here. The time counts from the first log line with updates on.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

from figures import report
from program import FailedError, Program

OPTIONS = (
    "--configs", "dmc_proprio", "--task", "dmc_walker_walk", "--run.train_ratio", "32",
    "--run.log_every", "1", "--logger.outputs", "jsonl",
)  # fmt: skip
STEP = r"^Step (?P<step>[\d,]+) of .*\| (?P<updates>[\d,]+) updates"
#: Updates that are not counted; the first ones fill caches.
WARM_UP = 3
VARIANTS = {"without_pictures": "0", "with_pictures": "1"}


def measure(options: list[str], seconds: float) -> tuple[float, dict[str, float]]:
    """Run the program for some seconds after its first updates.

    Returns:
      Environment steps per second, and the numbers of steps, updates and seconds counted.

    Raises:
      FailedError: If it ends before.
    """
    with tempfile.TemporaryDirectory(prefix="end-to-end-benchmark-") as temporary:
        folder = pathlib.Path(temporary)
        program = Program(options, folder / "run", "auto")
        try:
            first = None
            while True:
                moment, found = program.wait_for(STEP, 900)
                step, updates = (int(found[key].replace(",", "")) for key in ("step", "updates"))
                if first is None and updates >= WARM_UP:
                    first = (moment, step, updates)
                if first is not None and moment - first[0] >= seconds:
                    break
        finally:
            program.kill()
    passed, steps, updates = moment - first[0], step - first[1], updates - first[2]
    counted = {"steps": steps, "updates": updates, "seconds": round(passed, 1)}
    return steps / passed, counted


def rendering_works() -> bool:
    """Whether the control suite can draw here, tried in a process that may crash."""
    code = "from embodied.envs import gl; gl.load_dm_control(pictures=True)"
    root = pathlib.Path(__file__).resolve().parents[1]
    return subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", nargs="+", default=["size1m"])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--options", nargs=argparse.REMAINDER, default=[], help="of the program")
    args = parser.parse_args()
    yardstick = pathlib.Path(__file__).with_name("yardstick.py")
    # In a process of its own: this one leaves the devices to the program.
    subprocess.run([sys.executable, str(yardstick)], check=True)
    for size in args.sizes:
        for variant in args.variants:
            if variant == "with_pictures" and not rendering_works():
                print("No pictures: OpenGL does not work here.", file=sys.stderr)
                continue
            pictures = ["--env.dmc.log_image_every", VARIANTS[variant]]
            options = [*OPTIONS[:2], size, *OPTIONS[2:], *pictures, *args.options]
            try:
                rate, counted = measure(options, args.seconds)
            except FailedError as error:
                raise SystemExit(f"end_to_end/{size}/{variant}: {error}") from None
            report(f"end_to_end/{size}/{variant}", rate, "env steps/s", **counted)


if __name__ == "__main__":
    main()
