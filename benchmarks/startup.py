"""Times the start of the program until its first update, and its memory then.

    python benchmarks/startup.py [--sizes size1m size12m] [--options --run.envs 4]

The first start has an empty folder of compiled programs, the second one what the first has
compiled. Each phase that the program announces has a line of its own.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

from figures import report
from program import Program

#: How the phases of the set-up end, the first log line with an update, and the device.
MOMENTS = (
    r"^(?P<phase>.+): done in (?P<seconds>[\d.]+) s$"
    r"|^JAX runs on (?P<device>.+?)(:|,)"
    r"|^Step .*\| (?P<updates>[1-9][\d,]*) updates"
)
#: A log line at every step tells when the first update was; a line without usage costs little.
OPTIONS = (
    "--configs", "dmc_proprio", "--task", "dmc_walker_walk", "--run.log_every", "-1",
    "--run.usage.psutil", "False", "--run.usage.nvsmi", "False", "--logger.outputs", "jsonl",
)  # fmt: skip


def measure(name: str, options: list[str], folder: pathlib.Path, cache: pathlib.Path) -> None:
    """Start the program once and print its figures."""
    program = Program(options, folder, cache)
    details = {}
    try:
        while True:
            moment, found = program.wait_for(MOMENTS, 900)
            if found["device"]:
                details["device"] = found["device"]
                report(f"{name}/phase/imports", moment, "s", **details)
            elif found["phase"]:
                memory = round(program.memory / 1e6)
                phase = f"{name}/phase/{found['phase']}"
                report(phase, float(found["seconds"]), "s", peak_memory_mb=memory, **details)
            else:
                break
        memory, children = program.memory, program.memory_of_children
    finally:
        program.kill()
    report(f"{name}/first_update", moment, "s", updates=int(found["updates"]), **details)
    children_mb = round(children / 1e6)
    report(f"{name}/peak_memory", memory / 1e6, "MB", children_mb=children_mb, **details)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", nargs="+", default=["size1m", "size12m"])
    parser.add_argument("--options", nargs=argparse.REMAINDER, default=[], help="of the program")
    args = parser.parse_args()
    yardstick = pathlib.Path(__file__).with_name("yardstick.py")
    # In a process of its own: this one leaves the devices to the program.
    subprocess.run([sys.executable, str(yardstick)], check=True)
    for size in args.sizes:
        with tempfile.TemporaryDirectory(prefix="startup-benchmark-") as temporary:
            folder = pathlib.Path(temporary)
            options = [*OPTIONS[:2], size, *OPTIONS[2:], *args.options]
            for start in ("cold", "second"):
                measure(f"startup/{size}/{start}", options, folder / start, folder / "cache")


if __name__ == "__main__":
    main()
