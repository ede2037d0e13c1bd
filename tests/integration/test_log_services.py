"""Log outputs against the real packages, without a network; what was written is read back."""

import functools
import json
import pathlib
import sqlite3
import struct

import numpy as np
import pytest

from embodied.core.writers.background import BackgroundWriter
from embodied.core.writers.mlflow import MLflowWriter
from embodied.core.writers.scope import ScopeWriter
from embodied.core.writers.tensorboard import TensorBoardWriter
from embodied.core.writers.wandb import WandbWriter
from embodied.core.writers.writer import Record

pytestmark = [
    pytest.mark.logs,
    # What these packages do inside is not ours to mend.
    pytest.mark.filterwarnings("ignore::DeprecationWarning:(wandb|mlflow|tensorboard|pydantic).*"),
]
CONFIG = {"task": "dummy_disc", "agent.opt.lr": 4e-5, "env.dummy.size": (64, 64)}


def record(step, key, value):
    return Record(step, key, value if isinstance(value, str) else np.asarray(value))


def records(step):
    rng = np.random.default_rng(step)
    video = functools.partial(rng.integers, 0, 256, dtype=np.uint8)
    return [
        record(step, "train/loss", step / 2),
        record(step + 4, "train/loss", step / 4),
        record(step, "episode/score", np.float32(step)),
        record(step, "bad", np.nan),
        record(step, "params/summary", "3 arrays"),
        record(step, "ret", np.array([0.0, 1.0, np.nan, 2.0], np.float32)),
        record(step, "flat", video(size=(16, 24))),
        record(step, "gray", video(size=(16, 24, 1))),
        record(step, "color", rng.random((16, 24, 3), np.float32)),
        *(record(step, f"video{n}", video(size=(5, 16, 24, n))) for n in (1, 2, 3, 4, 6)),
    ]


VIDEOS = [f"video{n}" for n in (1, 2, 3, 4, 6)]


def test_scope_columns_are_read_by_scope(tmp_path):
    scope = pytest.importorskip("scope")
    output = ScopeWriter(tmp_path)
    output(records(8))
    ScopeWriter(tmp_path)(records(16))
    reader = scope.Reader(tmp_path)
    assert {"train/loss", "episode/score", "params/summary", "gray", *VIDEOS} <= set(reader.keys())
    steps, values = reader["train/loss"]
    assert list(steps) == [8, 12, 16, 20]
    assert list(values) == [4, 2, 8, 4]
    for key, expected in (("params/summary", "3 arrays"), ("gray", (16, 24)), ("video4", None)):
        steps, names = reader[key]
        assert list(steps) == [8, 16]
        value = reader.load(key, names[-1])
        if isinstance(expected, str):
            assert value == expected
        elif expected:
            assert np.asarray(value).shape[:2] == expected


def test_tensorboard_events_are_read_by_tensorboard(tmp_path):
    pytest.importorskip("tensorboardX")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    output = TensorBoardWriter(tmp_path, fps=10, config=CONFIG)
    for step in (8, 16, 24):
        output(records(step))
    output.close()
    resumed = TensorBoardWriter(tmp_path, fps=10, config=CONFIG)
    resumed([record(0, "params/summary", "3 arrays"), *records(16)])  # Stopped before 24 was saved.
    resumed.close()
    TensorBoardWriter(tmp_path).close()

    events = EventAccumulator(str(tmp_path)).Reload()
    tags = events.Tags()
    assert {"train/loss", "episode/score", "bad"} <= set(tags["scalars"])
    assert [e.step for e in events.Scalars("episode/score")] == [8, 16]
    assert [e.value for e in events.Scalars("episode/score")] == [8, 16]
    assert {"params/summary/text_summary", "config/text_summary"} <= set(tags["tensors"])
    (text, *_) = events.Tensors("config/text_summary")
    assert b'"agent.opt.lr": 4e-05' in text.tensor_proto.string_val[0]
    assert events.Histograms("ret")[0].histogram_value.num == 3
    assert {"flat", "gray", "color", *VIDEOS} <= set(tags["images"])
    for key, width in (("flat", 24), ("color", 24), ("video1", 24), ("video2", 48), ("video4", 96)):
        image = events.Images(key)[-1]
        assert (image.height, image.width) == (16, width)
    assert events.Images("video6")[0].encoded_image_string.startswith(b"GIF89a")


def leveldb_log(path):
    """Records of a file in the log format of LevelDB, which offline runs of wandb are stored in."""
    content, position, record = path.read_bytes(), 7, b""  # After a header of 7 bytes.
    while position + 7 <= len(content):
        if 32768 - position % 32768 < 7:  # Blocks of 32 KB end in padding.
            position += 32768 - position % 32768
            continue
        _, length, kind = struct.unpack_from("<IHB", content, position)
        record += content[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # Whole record, or the last part of one.
            yield record
            record = b""


def wandb_history(folder):
    """Read what the offline runs in a folder hold: identifiers, configs, rows of metrics."""
    from wandb.proto import wandb_internal_pb2

    ids, configs, rows = [], [], []
    for path in sorted(folder.glob("wandb/offline-run-*/*.wandb")):
        for data in leveldb_log(path):
            entry = wandb_internal_pb2.Record()
            entry.ParseFromString(data)
            if entry.WhichOneof("record_type") == "run":
                ids.append(entry.run.run_id)
                configs.append({item.key: item.value_json for item in entry.run.config.update})
            elif entry.WhichOneof("record_type") == "history":
                items = entry.history.item
                rows.append(
                    {i.key or ".".join(i.nested_key): json.loads(i.value_json) for i in items}
                )
    return ids, configs, rows


def test_wandb_continues_its_offline_run(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    for step in (8, 16):
        output = BackgroundWriter(
            WandbWriter(tmp_path, "project", "name", config=CONFIG), patience=60
        )
        output(records(step))
        output.close()
    ids, configs, rows = wandb_history(tmp_path)
    known = (tmp_path / "wandb_run.txt").read_text().strip()
    assert set(ids) == {known}
    assert len(list((tmp_path / "wandb").glob(f"offline-run-*-{known}"))) == 2
    assert json.loads(configs[0]["agent.opt.lr"]) == 4e-5
    assert [row["step"] for row in rows] == [8, 12, 16, 20]
    assert [row["train/loss"] for row in rows] == [4, 2, 8, 4]
    first = rows[0]
    assert first["params/summary"] == "3 arrays"
    assert sum(first["ret.values"]) == 3
    assert (first["gray.width"], first["gray.height"]) == (24, 16)
    for key in VIDEOS:
        assert first[f"{key}._type"] == "video-file"
        assert first[f"{key}.size"] > 0


def test_mlflow_continues_its_local_run(tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    from mlflow.tracking import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    for step in (8, 16):
        output = BackgroundWriter(
            MLflowWriter(tmp_path, "project", "name", config=CONFIG), patience=60
        )
        output(records(step))
        output.close()
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    identifier = (tmp_path / "mlflow_run.txt").read_text().strip()
    experiment = client.get_experiment_by_name("project")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.run_id == identifier
    assert run.info.status == "FINISHED"
    assert run.data.params["agent.opt.lr"] == "4e-05"
    history = client.get_metric_history(identifier, "train/loss")
    assert [(m.step, m.value) for m in history] == [(8, 4), (12, 2), (16, 8), (20, 4)]
    assert sorted(path.path for path in client.list_artifacts(identifier, "video3"))[0].startswith(
        f"video3/{8:020d}."
    )
    text = client.download_artifacts(identifier, f"params/summary/{8:020d}.txt", str(tmp_path))
    assert pathlib.Path(text).read_text() == "3 arrays"
    histogram = client.download_artifacts(identifier, f"ret/{8:020d}.json", str(tmp_path))
    assert sum(json.loads(pathlib.Path(histogram).read_text())["counts"]) == 3
    assert len(list((tmp_path / "mlartifacts").rglob("*.png"))) == 6


def test_mlflow_run_that_is_gone_is_replaced(tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "mlflow_run.txt").write_text("0123456789abcdef0123456789abcdef")
    output = MLflowWriter(tmp_path, "project", "name")
    names = ("log/a@b", "log/x[0]", "a/../b", "/c", "größe", "x" * 300)
    output([*records(8), *(Record(8, name, np.asarray(1.0)) for name in names)])
    output.close()
    identifier = (tmp_path / "mlflow_run.txt").read_text().strip()
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        assert database.execute("select run_uuid from runs").fetchall() == [(identifier,)]
        found = database.execute("select key from metrics where value = 1").fetchall()
        assert len({key for (key,) in found}) == len(names)
    database.close()
