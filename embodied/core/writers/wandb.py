"""Sends metrics to Weights & Biases."""

import os
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from embodied.core.writers.pictures import PictureFilter, to_rgb, write_video
from embodied.core.writers.services import finite, run_id
from embodied.core.writers.writer import Record, Writer


class WandbWriter(Writer):
    """One run at Weights & Biases, continued when the run resumes.

    The step is logged as a metric of its own and all others are shown over it, because the steps
    of the service cannot go back, as they do when a run is resumed from a checkpoint. Vectors
    become histograms. Needs the package `wandb` (extra `wandb`), whose environment variables work
    as usual; with `WANDB_MODE=offline`, `wandb sync` uploads the run later.
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        project: str,
        name: str,
        entity: str = "",
        fps: int = 15,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        """Create the writer; the service is contacted at the first write.

        Args:
          logdir: Folder of the run, where its identifier is kept.
          project: Project of the run.
          name: Displayed name of the run.
          entity: User or team; empty for the usual one of the account.
          fps: Frames per second of the videos.
          config: Options by dotted name.
        """
        self._logdir = Path(logdir)
        self._fps = fps
        self._options: dict[str, Any] = {
            "project": project,
            "name": name,
            "entity": entity or None,
            "config": dict(config or {}),
        }
        self._writable = PictureFilter("Weights & Biases", "wandb")
        self._run: Any = None

    def __call__(self, records: Sequence[Record]) -> None:
        """Log the records, those of one step together."""
        if self._run is None:
            self._run = self._start()
        with tempfile.TemporaryDirectory() as folder:
            for step, group in _by_step(self._writable(records)).items():
                values = {record.key: self._convert(record, Path(folder)) for record in group}
                self._run.log({**values, "step": step})

    def close(self) -> None:
        """Finish the run."""
        if self._run is not None:
            self._run.finish()

    def _start(self) -> Any:
        import wandb

        identifier = run_id(self._logdir, "wandb", lambda: secrets.token_hex(4))
        run = wandb.init(
            id=identifier,
            resume="allow",
            dir=str(self._logdir),
            settings=wandb.Settings(silent=True),
            **self._options,
        )
        run.define_metric("step")
        run.define_metric("*", step_metric="step")
        return run

    def _convert(self, record: Record, folder: Path) -> Any:
        import wandb

        value = record.value
        if isinstance(value, str):
            return value
        if record.kind == "scalar":
            return float(value)
        if record.kind == "vector":
            return wandb.Histogram(list(finite(value)))
        if record.kind == "image":
            return wandb.Image(to_rgb(value if value.ndim == 3 else value[..., None]))
        path = write_video(folder / secrets.token_hex(8), value, self._fps)
        extension: Any = path.suffix[1:]
        return wandb.Video(str(path), format=extension)


def _by_step(records: Sequence[Record]) -> Mapping[int, list[Record]]:
    """Group records by step, smaller steps first; of a key that repeats, all are kept in order."""
    groups: dict[int, list[Record]] = {}
    for record in records:
        groups.setdefault(record.step, []).append(record)
    return dict(sorted(groups.items()))
