"""Writes metrics as TensorBoard events."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embodied.core.writers.pictures import PictureFilter, encode_gif, to_rgb
from embodied.core.writers.services import finite
from embodied.core.writers.writer import Record, Writer


class TensorBoardWriter(Writer):
    """Event files in the folder of the run, for `tensorboard --logdir`.

    Vectors become histograms and videos moving GIF pictures. A resumed run starts another file,
    from whose first step on TensorBoard forgets what an earlier one had written. Needs the package
    `tensorboardX` (extra `tensorboard`).
    """

    def __init__(
        self, logdir: str | os.PathLike[str], fps: int = 15, config: Mapping[str, Any] | None = None
    ) -> None:
        """Create the writer; the file is opened at the first write.

        Args:
          logdir: Folder of the run.
          fps: Frames per second of the videos.
          config: Options by dotted name, shown as a text.
        """
        self._folder = Path(logdir)
        self._fps = fps
        self._config = dict(config or {})
        self._writable = PictureFilter("TensorBoard", "tensorboard", videos=("PIL",))
        self._writer: Any = None

    def __call__(self, records: Sequence[Record]) -> None:
        """Write the records and make them visible to readers."""
        if self._writer is None:
            self._writer = self._open(records)
        for record in self._writable(records):
            self._write(record)
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()

    def _open(self, records: Sequence[Record]) -> Any:
        from tensorboardX import SummaryWriter

        # Texts about the run are added at step 0, before the step of a resumed run is known.
        steps = [record.step for record in records if record.kind != "text"]
        purge = min(steps) if steps and min(steps) > 0 else None
        # Files are told apart, and read in the order of, their names, which begin with seconds.
        files = len(list(self._folder.glob("events.out.tfevents.*")))
        writer = SummaryWriter(str(self._folder), purge_step=purge, filename_suffix=f".{files:04d}")
        if self._config:
            text = json.dumps(self._config, indent=2, default=str)
            writer.add_text("config", f"```\n{text}\n```", purge or 0)
        return writer

    def _write(self, record: Record) -> None:
        key, value, step = record.key, record.value, record.step
        if isinstance(value, str):
            self._writer.add_text(key, value, step)
        elif record.kind == "scalar":
            self._add(record, simple_value=float(value))
        elif record.kind == "vector":
            if numbers := list(finite(value)):
                self._writer.add_histogram(key, np.array(numbers), step)
        elif record.kind == "image":
            picture = value if value.ndim == 3 else value[..., None]
            self._writer.add_image(key, to_rgb(picture), step, dataformats="HWC")
        else:
            self._write_video(record, value)

    def _write_video(self, record: Record, frames: np.ndarray) -> None:
        from tensorboardX.proto.summary_pb2 import Summary

        height, width = to_rgb(frames).shape[1:3]
        image = Summary.Image(
            height=height,
            width=width,
            colorspace=3,
            encoded_image_string=encode_gif(frames, self._fps),
        )
        self._add(record, image=image)

    def _add(self, record: Record, **content: Any) -> None:
        """Write what the writer's methods refuse: NaN without a complaint, encoded videos."""
        from tensorboardX.proto.summary_pb2 import Summary

        summary = Summary(value=[Summary.Value(tag=record.key, **content)])
        self._writer.file_writer.add_summary(summary, record.step)
