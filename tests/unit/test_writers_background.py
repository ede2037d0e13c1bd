"""Outputs in a thread, identifiers of runs elsewhere, packages that outputs need."""

import logging
import posixpath
import re
import threading
import zlib

import numpy as np
import pytest

from embodied.core.logger import Logger
from embodied.core.schedule import Counter
from embodied.core.writers import mlflow, services
from embodied.core.writers.background import BackgroundWriter
from embodied.core.writers.services import allowed_name, remember, run_id
from embodied.core.writers.writer import Record, Writer

RECORDS = [Record(1, "a", np.asarray(2.0))]


class Remote(Writer):
    """Waits until it is told to go on; fails where it is told to."""

    def __init__(self, fail=()):
        self.go, self.writes, self.closed, self._fail = threading.Event(), [], False, fail

    def __call__(self, records):
        self.go.wait(60)
        self.writes.append(records)
        if len(self.writes) in self._fail:
            raise ConnectionError("no route to host")

    def close(self):
        self.closed = True


def test_background_writes_in_order_without_waiting():
    remote = Remote()
    output = BackgroundWriter(remote)
    for index in range(5):
        output([index])
    assert len(remote.writes) <= 1
    remote.go.set()
    output.close()
    assert remote.writes == [[index] for index in range(5)]
    assert remote.closed


def test_failure_in_the_background_is_a_warning_with_the_name_of_the_output(caplog):
    remote = Remote(fail=[1])
    logger = Logger(Counter(), [BackgroundWriter(remote)])
    logger.add("a", 1)
    logger.write()
    remote.go.set()
    with caplog.at_level(logging.WARNING):
        logger.add("a", 2)
        logger.close()
    assert len(remote.writes) == 2
    assert remote.closed
    assert [record.getMessage().split(" at step")[0] for record in caplog.records] in (
        ["Log output Remote failed to write metrics"],
        ["Log output Remote failed to close"],
    )
    assert "no route to host" in caplog.text


def test_output_that_is_too_slow_is_left_behind():
    remote = Remote()
    output = BackgroundWriter(remote, capacity=2, patience=0.01)
    with pytest.raises(RuntimeError, match="2 writes are pending"):
        for _ in range(4):
            output(RECORDS)
    with pytest.raises(TimeoutError, match="still pending"):
        output.close()
    remote.go.set()


def test_run_id_is_made_once_per_folder_and_service(tmp_path):
    assert run_id(tmp_path / "a", "wandb", lambda: "one") == "one"
    assert run_id(tmp_path / "a", "mlflow", lambda: "two") == "two"
    assert run_id(tmp_path / "a", "wandb", lambda: pytest.fail("known")) == "one"
    assert run_id(tmp_path / "b", "wandb", lambda: "three") == "three"
    assert remember(tmp_path / "a", "mlflow", "four") == "four"
    assert run_id(tmp_path / "a", "mlflow", lambda: pytest.fail("known")) == "four"
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == ["mlflow_run.txt", "wandb_run.txt"]
    (tmp_path / "a" / "mlflow_run.txt").write_text("")
    assert run_id(tmp_path / "a", "mlflow", lambda: "five") == "five"


def test_missing_package_names_the_extra(monkeypatch):
    assert services.missing_package("jsonl") == ""
    monkeypatch.setattr(services.importlib.util, "find_spec", lambda name: None)
    for name in ("tensorboard", "wandb", "mlflow"):
        problem = services.missing_package(name)
        assert f"'{name}' needs the package" in problem
        assert f"pip install -e '.[{name}]'" in problem
    assert services.missing_package("scope") == ""


@pytest.mark.parametrize(
    ("key", "clean"),
    [
        ("train/loss/a b:c-d.e", True),
        ("epstats/log/a@b", False),
        ("a[0]", False),
        ("größe", False),
        ("/a", False),
        ("a//b", False),
        ("a/../b", False),
        ("..", False),
        ("a/", False),
        ("x" * 300, False),
    ],
)
def test_names_are_those_that_an_output_takes(key, clean):
    name = allowed_name(key, mlflow._FORBIDDEN, 250)
    assert (name == key) is clean
    assert re.fullmatch(r"[A-Za-z0-9_\-. :/]{1,250}", name)
    assert posixpath.normpath(name) == name and not name.startswith("/")


def test_names_of_different_keys_differ_and_do_not_change():
    keys = ["a[0]", "a(0)", "a@0@", "a_0_", "x" * 300, "x" * 301]
    names = [allowed_name(key, mlflow._FORBIDDEN, 250) for key in keys]
    assert len(set(names)) == len(keys)
    assert names[0] == "a_0__" + f"{zlib.crc32(b'a[0]'):08x}"
