"""Runs all benchmarks, one after the other, and prints the table of their figures.

    python benchmarks/run_all.py [--out FILE] [--only driver startup]

Takes about ten minutes on two quiet cores. Whatever fails is named at the end, and the exit code
is 1 then.
"""

import argparse
import pathlib
import subprocess
import sys
import time

import table

FOLDER = pathlib.Path(__file__).parent
#: Names of the benchmarks and what they are given: enough for the table, and little enough for
#: ten minutes.
BENCHMARKS = {
    "train_step": [
        ("--profile", "--repeats", "3"),
        ("--dtype", "bfloat16", "--repeats", "3"),
    ],
    "policy_step": [()],
    "replay": [
        ("--sizes", "1m", "12m", "--layouts", "compact", "--rounds", "2", "--seconds", "0.3"),
        ("--sizes", "1m", "12m", "--layouts", "compact_bfloat16", "--only_memory"),
    ],
    "driver": [("--seconds", "3")],
    "startup": [()],
    "end_to_end": [()],
}


def run(name: str, arguments: tuple[str, ...], out: pathlib.Path) -> bool:
    """Run a benchmark, print what it prints and append it to a file; return whether it worked."""
    command = [sys.executable, str(FOLDER / f"{name}.py"), *arguments]
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        with out.open("a") as file:
            for line in process.stdout:
                print(line, end="", flush=True)
                file.write(line)
    seconds = time.perf_counter() - start
    print(f"{' '.join([name, *arguments])}: {seconds:.0f} s", file=sys.stderr, flush=True)
    return process.returncode == 0


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=FOLDER / "figures.jsonl")
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=list(BENCHMARKS))
    args = parser.parse_args()
    args.out.write_text("")
    failed = []
    for name in args.only:
        for arguments in BENCHMARKS[name]:
            if not run(name, arguments, args.out):
                failed.append(" ".join([name, *arguments]))
    print("\n" + "\n".join(table.table(args.out.read_text().splitlines())))
    print(f"\nThe figures are in {args.out}; benchmarks/table.py prints the table again.")
    if failed:
        raise SystemExit(f"Failed: {'; '.join(failed)}.")


if __name__ == "__main__":
    main()
