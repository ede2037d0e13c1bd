"""Whole runs with environments that misbehave."""

import json
import re

import numpy as np
import pytest

from dreamerv3.main import main
from embodied.core.replay.replay import Replay

OPTIONS = [
    "--configs", "debug", "--random_agent", "True", "--task", "integration.faulty_env:Faulty",
    "--run.parallel", "false", "--run.envs", "3", "--run.steps", "150", "--run.save_every", "-1",
    "--run.log_every", "-1", "--logger.outputs", "jsonl", "--logger.filter", "none",
]  # fmt: skip


def run(folder, kind, *flags):
    main([*OPTIONS, "--env.custom.kind", kind, "--logdir", str(folder), *flags])


def stored(folder):
    replay = Replay(11, directory=folder / "replay")
    replay.load()
    return replay.sample(200, "report")


@pytest.mark.parametrize(
    ("kind", "key", "found"),
    [
        ("not_a_number", "count", "nan"),
        ("infinite", "count", "inf"),
        ("shape", "count", r"\(4,\)"),
        ("dtype", "count", "float64"),
        ("object", "count", "object"),
        ("missing", "count", ""),
        ("extra", "more", ""),
        ("tuple", "", "tuple"),
    ],
)
def test_bad_observations_stop_the_run_at_their_first_occurrence(
    tmp_path, capsys, kind, key, found
):
    with pytest.raises(SystemExit) as ended:
        run(tmp_path, kind)
    assert ended.value.code == 1
    sentence, place = capsys.readouterr().err.splitlines()[-2:]
    assert re.search(f"^error: Env worker 1 .*step 25.*{key}.*{found}", sentence)
    assert place == f"The traceback is in {tmp_path / 'error.txt'}."
    assert "checked_env.py" in (tmp_path / "error.txt").read_text()


def test_an_environment_that_raises_ends_the_run_in_a_sentence(tmp_path, capsys):
    with pytest.raises(SystemExit):
        run(tmp_path, "raise")
    error = capsys.readouterr().err
    assert re.search(r"^error: Env worker 1 failed at step 25: \w+: ", error, re.MULTILINE)
    assert "Traceback" not in error
    assert "in step" in (tmp_path / "error.txt").read_text()


def test_values_at_a_bound_up_to_rounding_are_accepted(tmp_path):
    run(tmp_path, "rounded")


@pytest.mark.parametrize("kind", ["raise", "not_a_number"])
def test_restarts_begin_clean_episodes_and_are_counted(tmp_path, kind, caplog):
    restarts = ["--run.env_restarts", "9", "--run.env_restart_wait", "0"]
    run(tmp_path, kind, *restarts)
    assert "Environment failed 1 times" in caplog.text
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert max(line.get("epstats/log/restarts/max", 0) for line in lines) == 1
    # Episodes whose end is missing do not count.
    assert {line["episode/length"] for line in lines if "episode/length" in line} == {10}
    batch = stored(tmp_path)
    assert np.isfinite(batch["count"]).all()
    following = np.where(batch["is_first"][:, 1:], 0, batch["count"][:, :-1, 0] + 1)
    assert (batch["count"][:, 1:, 0] == following).all()
