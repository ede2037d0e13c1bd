"""What a run has reached and how to look at it, printed at its end."""

from __future__ import annotations

import contextlib
import json
import pathlib
import shlex
import statistics
from collections.abc import Iterator, Mapping

from embodied.core.config import Config
from embodied.core.program import program_text
from embodied.run.seed_run import seed_folders

_RECENT = 10
_PLOT = "{plot} {folder} --out {folder}/curves.png"
_TABLE = "{table} {folder}"
_EVALUATE = "{program} --script eval_only --run.from_checkpoint {folder}"
_VIEWERS: Mapping[str, str] = {
    "scope": "scope --basedir {parent}",
    "tensorboard": "tensorboard --logdir {folder}",
    "wandb": "wandb sync {folder}/wandb/offline-run-*",
    "mlflow": "mlflow ui --backend-store-uri sqlite:///{folder}/mlflow.db",
}
#: What has to be in the folder for a viewer's command to make sense.
_TRACES: Mapping[str, str] = {
    "scope": "scope",
    "tensorboard": "events.out.tfevents.*",
    "wandb": "wandb/offline-run-*",
    "mlflow": "mlflow.db",
}


@contextlib.contextmanager
def announced(config: Config) -> Iterator[None]:
    """Print the next steps when a run ends by itself or is stopped, but not after an error."""
    try:
        yield
    except SystemExit:  # Stopped by a signal, after saving.
        print(next_steps(config), flush=True)
        raise
    print(next_steps(config), flush=True)


def next_steps(config: Config) -> str:
    """List what lies in the folder of a run, and the commands to plot, view and evaluate it.

    Commands are those of the way in which this program was started; only those are listed that
    have something to show. Of several seeds, it is the folder of the first one.
    """
    folder = pathlib.Path(seed_folders(config.logdir, config.ondevice.seeds)[0])
    lines = []
    if scores := _scores(folder / "scores.jsonl"):
        recent = scores[-_RECENT:]
        lines.append(
            f"Scores:   {folder / 'scores.jsonl'} ({len(scores):,} episodes, mean "
            f"{statistics.fmean(recent):.4g} over the last {len(recent)})"
        )
    elif (folder / "ckpt").exists() and "jsonl" in config.logger.outputs:
        lines.append("Scores:   none yet, since no episode has ended")
    if (folder / "metrics.jsonl").exists():
        lines.append(f"Metrics:  {folder / 'metrics.jsonl'}")
    latest = folder / "ckpt" / "latest"
    if latest.exists():
        lines.append(f"Snapshot: {latest.parent / latest.read_text().strip()}")
    commands = [("Plot", _PLOT), ("Table", _TABLE)] if scores else []
    for output in config.logger.outputs:
        if output in _VIEWERS and any(folder.glob(_TRACES[output])):
            commands.append(("View", _VIEWERS[output]))
    if latest.exists() and not config.random_agent:
        commands.append(("Evaluate", _EVALUATE))
    names = {"plot": program_text("plot"), "table": program_text("table")}
    names |= {
        "program": program_text(),
        "folder": shlex.quote(str(folder)),
        "parent": shlex.quote(str(folder.parent)),
    }
    lines += [f"{title + ':':<9} {command.format(**names)}" for title, command in commands]
    return "\n".join(lines)


def _scores(path: pathlib.Path) -> list[float]:
    """Scores of finished episodes; a line that was cut or has no number is left out."""
    scores = []
    for line in path.read_text().splitlines() if path.exists() else []:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            scores.append(float(json.loads(line)["episode/score"]))
    return scores
