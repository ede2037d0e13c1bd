"""The script around a program on devices, here a fake one: steps, logs, checkpoints of seeds."""

import json

import numpy as np
import pytest

from embodied.core.config import ConfigError
from embodied.core.device_program import ChunkResult, DeviceProgram, EndedEpisode
from embodied.core.logger import Logger
from embodied.core.nonfinite import NonFiniteError
from embodied.core.schedule import Counter
from embodied.core.writers import JSONLWriter
from embodied.run.ondevice import ondevice
from embodied.run.options import RunOptions
from embodied.run.seed_run import seed_folders

WORLDS, LENGTH = 3, 4


class Counting(DeviceProgram):
    """Counts iterations; an episode of world 1 ends in every fifth of them, and scores its seed."""

    def __init__(self, seeds, breaks=0):
        self.seeds, self.worlds, self.window, self.capacity = list(seeds), WORLDS, 2, 1000
        self.n, self.total, self.breaks = 0, 0, breaks

    def compile(self, plan):
        assert plan.updates.shape == (LENGTH,)

    def start(self, plan, count):
        first, self.n = self.n, self.n + count
        updates = int(plan.updates[:count].sum())
        self.total += updates
        return first, count, updates

    def fetch(self, handle):
        first, count, updates = handle
        if self.breaks and first >= self.breaks:
            raise NonFiniteError(self.total, ["loss/x"], {})
        ends = [m for m in range(count) if (first + m) % 5 == 4]
        return [
            ChunkResult(
                [EndedEpisode(m, 1, float(seed), 5, 1, {"log/a": (5, 10.0, 4.0)}) for m in ends],
                {"loss/x": 2.0 * updates},
                updates,
                0,
            )
            for seed in self.seeds
        ]

    def report(self):
        return [{"n": np.float32(self.n)} for _ in self.seeds]

    def evaluate(self):
        found = {"score": np.array([1.0, 5.0, 9.0]), "length": np.array([2, 4, 100])}
        return [{**found, "partial": np.array([False, False, True])} for _ in self.seeds]

    def save(self):
        return [
            {
                "agent": {"params": {"w": np.float32(seed)}},
                "ondevice": {"n": self.n, "u": self.total},
            }
            for seed in self.seeds
        ]

    def load(self, states):
        for seed, state in zip(self.seeds, states, strict=True):
            assert state["agent"]["params"]["w"] == seed
        (self.n,) = {state["ondevice"]["n"] for state in states}
        (self.total,) = {state["ondevice"]["u"] for state in states}

    def load_params(self, agent, regex):
        raise AssertionError

    def summary(self):
        return "w: 1"

    def describe_replay(self):
        return "Replay:   none"


def run(folder, seeds=(0,), breaks=0, **options):
    programs = []

    def make_program():
        programs.append(Counting(seeds, breaks))
        return programs[0]

    def make_loggers():
        return [
            Logger(Counter(), [JSONLWriter(path, name) for name in ("metrics.jsonl",)], 2)
            for path in seed_folders(str(folder), len(seeds))
        ]

    values = {
        "steps": 100, "train_ratio": 4, "batch_size": 4, "batch_length": 2, "envs": WORLDS,
        "log_every": -1, "report_every": -1, "save_every": -1, "usage": {"psutil": False},
    }  # fmt: skip
    ondevice(
        make_program,
        make_loggers,
        RunOptions(str(folder), **{**values, **options}),
        LENGTH,
        evaluates=True,
    )
    return programs[0]


def metrics(folder, key):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [(line["step"], line[key]) for line in lines if key in line]


def test_steps_scores_and_metrics_are_those_of_the_iterations(tmp_path, capsys):
    program = run(tmp_path, seeds=(7,))
    # 34 steps of 3 environments are the first that reach the budget.
    assert program.n == 34
    scores = metrics(tmp_path, "episode/score")
    # Logged steps are frames, two per step; the second environment makes its step as second.
    assert scores == [(2 * (3 * n + 2), 7) for n in range(4, 34, 5)]
    assert {value for _, value in metrics(tmp_path, "epstats/log/a/avg")} == {2}
    assert {value for _, value in metrics(tmp_path, "train/loss/x")} == {2}
    assert metrics(tmp_path, "replay/items")[-1] == (204, 99)
    assert metrics(tmp_path, "report/n")[-1] == (204, 34)
    assert metrics(tmp_path, "eval/episode/score")[-1] == (204, 3)
    assert metrics(tmp_path, "eval/episode/length")[-1] == (204, 3)
    # Half an update per step, from 8 items on.
    assert program.total == pytest.approx((102 - 9) / 2, abs=1)
    output = capsys.readouterr().out
    assert "Step 102 of 100" in output
    assert "Ended at step 102 (204 frames)" in output


def test_a_run_continues_where_all_seeds_were_saved(tmp_path, capsys):
    run(tmp_path, seeds=(1, 2), steps=30)
    run(tmp_path, seeds=(1, 2), steps=60)
    assert "Continuing at step 30" in capsys.readouterr().out
    snapshots = sorted((tmp_path / "seed1" / "ckpt").glob("0*"))
    assert len(snapshots) == 2
    # The process was killed before the second seed was saved.
    (snapshots[-1] / "manifest.json").unlink()
    program = run(tmp_path, seeds=(1, 2), steps=90)
    assert program.n == 30
    scores = dict(metrics(tmp_path / "seed1", "episode/score"))
    assert scores == {2 * (3 * n + 2): 2 for n in range(4, 30, 5)}
    for path in (tmp_path / "seed0" / "ckpt").glob("0*"):
        (path / "manifest.json").unlink()
    with pytest.raises(ConfigError, match="of the same step for all 2 seeds"):
        run(tmp_path, seeds=(1, 2), steps=120)


def test_after_a_bad_update_nothing_is_saved(tmp_path):
    with pytest.raises(NonFiniteError, match="loss/x") as error:
        run(tmp_path, breaks=8, save_every=0)
    assert "The checkpoint before it is still there" in error.value.__notes__[0]
    assert "batch" not in error.value.__notes__[0]
    assert len(list((tmp_path / "ckpt").glob("0*"))) == 1
