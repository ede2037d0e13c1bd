"""Sends metrics to MLflow."""

import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embodied.core.writers.pictures import PictureFilter, encode_png, write_video
from embodied.core.writers.services import allowed_name, finite, remember, run_id
from embodied.core.writers.writer import Record, Writer

_METRICS_PER_REQUEST = 1000
_PARAMS_PER_REQUEST = 100
_PARAM_LENGTH = 500
_BINS = 30
#: What MLflow refuses in names: other characters, and what a path would resolve.
_FORBIDDEN = r"[^A-Za-z0-9_\-. :/]|^/|/$|(?<=/)/|(?<![^/])\.{1,2}(?![^/])"
_LONGEST_NAME = 250


class MLflowWriter(Writer):
    """One run at an MLflow server, continued when the run resumes.

    Scalars are metrics and options are parameters. Texts, pictures, videos and histograms are
    artifacts `<key>/<step>.<extension>`. Names that MLflow refuses are changed, see
    `services.allowed_name`. The server is that of `MLFLOW_TRACKING_URI`, else the
    database `mlflow.db` in the folder of the run. Needs the package `mlflow` (extra `mlflow`).
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        experiment: str,
        name: str,
        fps: int = 15,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        """Create the writer; the server is contacted at the first write.

        Args:
          logdir: Folder of the run, where its identifier is kept.
          experiment: Experiment that the run belongs to, made when needed.
          name: Displayed name of the run.
          fps: Frames per second of the videos.
          config: Options by dotted name.
        """
        self._logdir = Path(logdir)
        self._experiment = experiment
        self._name = name
        self._fps = fps
        self._config = dict(config or {})
        self._writable = PictureFilter("MLflow", "mlflow")
        self._client: Any = None
        self._artifacts: str | None = None
        self._run = ""

    def __call__(self, records: Sequence[Record]) -> None:
        """Log the records: scalars in few requests, everything else in one each."""
        if not self._run:
            self._start()
        self._log_scalars([record for record in records if record.kind == "scalar"])
        with tempfile.TemporaryDirectory() as folder:
            for record in self._writable(records):
                if record.kind != "scalar":
                    path = self._write_file(record, Path(folder) / f"{record.step:020d}")
                    self._client.log_artifact(self._run, str(path), _name(record.key))

    def close(self) -> None:
        """Mark the run as finished."""
        if self._run:
            self._client.set_terminated(self._run)

    def _start(self) -> None:
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient

        server = os.environ.get("MLFLOW_TRACKING_URI")
        local = f"sqlite:///{self._logdir.absolute() / 'mlflow.db'}"
        self._artifacts = None if server else (self._logdir.absolute() / "mlartifacts").as_uri()
        self._client = MlflowClient(server or local)
        run = run_id(self._logdir, "mlflow", self._create)
        try:
            self._client.update_run(run, status="RUNNING")
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            # The run was deleted, or it belongs to another server.
            run = remember(self._logdir, "mlflow", self._create())
        self._log_params(run)
        self._run = run

    def _create(self) -> str:
        found = self._client.get_experiment_by_name(self._experiment)
        if found:
            number = found.experiment_id
        else:
            number = self._client.create_experiment(self._experiment, self._artifacts)
        return str(self._client.create_run(number, run_name=self._name).info.run_id)

    def _log_params(self, run: str) -> None:
        """Log the options that the run does not have yet; those it has cannot be changed."""
        from mlflow.entities import Param

        known = self._client.get_run(run).data.params
        params = [
            Param(_name(key), str(value)[:_PARAM_LENGTH])
            for key, value in self._config.items()
            if _name(key) not in known
        ]
        for i in range(0, len(params), _PARAMS_PER_REQUEST):
            self._client.log_batch(run, params=params[i : i + _PARAMS_PER_REQUEST])

    def _log_scalars(self, records: Sequence[Record]) -> None:
        from mlflow.entities import Metric

        now = round(time.time() * 1000)
        metrics = [Metric(_name(r.key), float(r.value), now, r.step) for r in records]
        for i in range(0, len(metrics), _METRICS_PER_REQUEST):
            self._client.log_batch(self._run, metrics=metrics[i : i + _METRICS_PER_REQUEST])

    def _write_file(self, record: Record, path: Path) -> Path:
        """Write what is not a scalar as a file; its extension follows from its kind."""
        value = record.value
        if isinstance(value, str):
            path = path.with_suffix(".txt")
            path.write_text(value)
        elif record.kind == "vector":
            counts, edges = np.histogram(finite(value), _BINS)
            path = path.with_suffix(".json")
            path.write_text(json.dumps({"counts": counts.tolist(), "edges": edges.tolist()}))
        elif record.kind == "image":
            path = path.with_suffix(".png")
            path.write_bytes(encode_png(value))
        else:
            path = write_video(path, value, self._fps)
        return path


def _name(key: str) -> str:
    return allowed_name(key, _FORBIDDEN, _LONGEST_NAME)
