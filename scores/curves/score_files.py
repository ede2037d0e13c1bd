"""Score files, as curves are published: gzipped JSON lists of `task, method, seed, xs, ys`."""

import gzip
import json
import re
import zlib
from collections.abc import Sequence
from pathlib import Path

from scores.curves.notes import Notes, ScoresError
from scores.curves.runs import EVAL_SUFFIX, Run, Skipped, clean_scores, suite_of
from scores.curves.text import decode

KEYS = ("task", "method", "seed", "xs", "ys")


def read_score_file(path: Path, notes: Notes) -> list[Run]:
    """Read the runs of a score file.

    Args:
      path: `BENCHMARK-METHOD.json.gz`, or the same JSON without compression.
      notes: Receives remarks on a file or records that cannot be used.

    Returns:
      One run per record that holds scores; empty where the file is damaged.
    """
    try:
        data = path.read_bytes()
        records = json.loads(decode(gzip.decompress(data) if path.suffix == ".gz" else data))
    except (OSError, EOFError, ValueError, zlib.error) as error:
        notes.add(f"{path}: is not a readable score file ({error})")
        return []
    if not isinstance(records, list):
        notes.add(f"{path}: is not a list of runs with {', '.join(KEYS)}; left out")
        return []
    skipped = Skipped()
    found = [_read_record(record, i, path, skipped, notes) for i, record in enumerate(records)]
    skipped.note(str(path), notes)
    return [run for run in found if run is not None]


def _read_record(
    record: object, index: int, path: Path, skipped: Skipped, notes: Notes
) -> Run | None:
    if not isinstance(record, dict) or any(key not in record for key in KEYS):
        notes.add(f"{path}: record {index} lacks one of {', '.join(KEYS)}; left out")
        return None
    task, method, seed = (str(record[key]) for key in KEYS[:3])
    name = f"{path}: {task} seed {seed}"
    xs, ys = record["xs"], record["ys"]
    if not isinstance(xs, list) or not isinstance(ys, list) or len(xs) != len(ys):
        notes.add(f"{name}: xs and ys are not two lists of the same length; left out")
        return None
    steps, scores = clean_scores(xs, ys, skipped)
    if not len(steps):
        notes.add(f"{name}: holds no score and is left out")
        return None
    return Run(
        task=task,
        method=method.removesuffix(EVAL_SUFFIX),
        seed=seed,
        xs=steps,
        ys=scores,
        series="eval" if method.endswith(EVAL_SUFFIX) else "train",
        benchmark=_benchmark(path, task),
        source=str(path),
    )


def _benchmark(path: Path, task: str) -> str:
    """Official files are named BENCHMARK-METHOD; the suite alone names no benchmark."""
    prefix, dash, _ = path.name.partition("-")
    suite = suite_of(task)
    return prefix if dash and prefix.startswith(suite) and prefix != suite else ""


def write_score_file(path: Path, runs: Sequence[Run]) -> None:
    """Write runs in the official format; seeds are text as in the official files.

    Args:
      path: Target, `*.json.gz`; the folder is created. The same runs give the same bytes.
      runs: Runs to write; the evaluation series keeps its mark in the method name.
    """
    taken: set[tuple[str, str, str]] = set()
    records = []
    for run in runs:
        seed, copy = run.seed, 1
        while (run.task, run.label, seed) in taken:
            copy += 1
            seed = f"{run.seed}-{copy}"
        taken.add((run.task, run.label, seed))
        values = (run.task, run.label, seed, run.xs.tolist(), run.ys.tolist())
        records.append(dict(zip(KEYS, values, strict=True)))
    path.parent.mkdir(parents=True, exist_ok=True)
    data = json.dumps(records, allow_nan=False).encode()
    path.write_bytes(gzip.compress(data, mtime=0))


def export_runs(runs: Sequence[Run], target: Path) -> list[Path]:
    """Write runs to one score file, or to one per benchmark and method.

    Args:
      runs: Runs on the frames axis.
      target: A file `*.json.gz` for all runs, or a folder that gets one file
        `BENCHMARK-METHOD.json.gz` per benchmark and method; runs of an unknown benchmark go to
        `SUITE-METHOD.json.gz`.

    Returns:
      The files that were written.

    Raises:
      ScoresError: A file is there already, so that no scores are ever replaced, or the target
        has another suffix.
    """
    groups: dict[Path, list[Run]] = {}
    for run in runs:
        groups.setdefault(_target(run, target), []).append(run)
    for path in groups:
        if path.exists():
            raise ScoresError(f"{path} is there already; remove it or export to another place.")
    for path, members in groups.items():
        write_score_file(path, members)
    return list(groups)


def _target(run: Run, target: Path) -> Path:
    if target.name.endswith(".json.gz"):
        return target
    if target.suffix in (".gz", ".json") or target.is_file():
        raise ScoresError(f"--export takes a folder or a file named *.json.gz, got {target}")
    label = re.sub(r"[^\w.]+", "_", run.label).strip("_")
    return target / f"{run.benchmark or run.suite}-{label}.json.gz"
