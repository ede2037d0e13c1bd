import csv
import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
OFFICIAL = Path(os.environ.get("OFFICIAL_SCORES", ROOT.parent / "shared" / "official-scores"))
needs_official = pytest.mark.skipif(
    not list(OFFICIAL.glob("*.json.gz")), reason="needs the official score files"
)
OFFICIAL_METHODS = ("d4pg", "ddpg", "dmpo", "dreamerv3", "mpo", "ppo_fixhp")


def script(name, *arguments, code=0, cwd=None):
    command = [sys.executable, "-W", "error", str(ROOT / "scores" / f"{name}.py")]
    environment = {key: value for key, value in os.environ.items() if key != "DISPLAY"}
    result = subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
        timeout=300,
    )
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    return result


def write_run(folder, seed, end, task="dmc_walker_walk"):
    """Write a default-named run folder the way the trainer does; the scores are made up."""
    folder.mkdir(parents=True)
    config = f"task: {task}\nmethod: name\nseed: {seed}\nenv:\n  dmc: {{repeat: 2, image: false}}\n"
    (folder / "config.yaml").write_text(config)
    steps = range(1000, end + 1, 1000)
    lines = [json.dumps({"step": s, "episode/score": s / 1000 + seed}) for s in steps]
    (folder / "scores.jsonl").write_text("\n".join([*lines, ""]))
    lines = [json.dumps({"step": s, "eval/episode/score": 2.0 * s}) for s in steps[1::2]]
    (folder / "eval_scores.jsonl").write_text("\n".join([*lines, ""]))
    lines = [json.dumps({"step": s, "train/opt/updates": s / 4}) for s in steps]
    (folder / "metrics.jsonl").write_text("\n".join([*lines, ""]))


@pytest.fixture
def runs(tmp_path):
    """Two short runs, one of half length with a cut last line, and one without episodes."""
    folder = tmp_path / "logdir"
    write_run(folder / "20250101T000000", seed=0, end=20_000)
    write_run(folder / "20250102T000000", seed=1, end=10_000)
    write_run(folder / "20250103T000000", seed=2, end=0)
    with (folder / "20250102T000000" / "scores.jsonl").open("a") as stream:
        stream.write('{"step": 11000, "episo')
    return folder


@pytest.fixture
def published(tmp_path):
    """A small score file that stands in for the official ones."""
    tasks = ("dmc_walker_walk", "dmc_walker_run")
    records = [
        {"task": task, "method": "other", "seed": seed, "xs": [1e4, 2e4], "ys": [3.0, seed + 5.0]}
        for task in tasks
        for seed in range(3)
    ]
    path = tmp_path / "published" / "dmc_proprio-other.json.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(json.dumps(records).encode()))
    return path


def read_csv(path):
    with path.open() as stream:
        return list(csv.DictReader(stream))


@pytest.mark.slow
def test_user_report_10(runs, published, tmp_path):
    """Curves and tables from what the trainer wrote, next to published logs."""
    result = script("plot", runs, published, "--bins", 20, cwd=tmp_path)
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    rows = read_csv(tmp_path / "curves.csv")
    assert {(row["panel"], row["method"]) for row in rows} >= {
        ("dmc_walker_walk", "name"),
        ("dmc_walker_walk", "name (eval)"),
        ("dmc_walker_walk", "other"),
        ("dmc_mean", "other"),
    }
    points = {
        float(row["x"]): row
        for row in rows
        if (row["panel"], row["method"]) == ("dmc_walker_walk", "name")
    }
    assert points[5000]["seeds"] == "2" and float(points[5000]["mean"]) == 5.5
    assert points[15000]["seeds"] == "1" and float(points[15000]["mean"]) == 15
    for remark in ("last line is cut", "no episode has finished", "end early"):
        assert remark in result.stderr

    arguments = (runs, published, "--series", "train", "--at", 10_000, "--window", 4_000)
    result = script("table", *arguments)
    # Frames (6000, 10000]: seed 0 has 7, 8, 9, 10 and seed 1 one more each: means 8.5 and 9.5.
    assert "| dmc_walker_walk | 9.0 ± 0.7 | 3.0 ± 0.0 | 936.0 |" in result.stdout
    assert "(6000, 10000]" in result.stdout
    result = script("table", *arguments, "--format", "csv")
    assert "(6000, 10000]" in result.stderr

    script("view", runs, published, "--export", tmp_path / "export")
    script(
        "plot", tmp_path / "export", "--bins", 20, "--out", "again.png", "again.csv", cwd=tmp_path
    )
    for suffix in (".csv", ".png"):
        first, again = tmp_path / f"curves{suffix}", tmp_path / f"again{suffix}"
        assert first.read_bytes() == again.read_bytes()


def test_export_follows_the_public_rules(runs, published, tmp_path):
    script("view", runs, published, "--export", tmp_path / "out")
    paths = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert paths == [
        "dmc_proprio-name.json.gz",
        "dmc_proprio-name_eval.json.gz",
        "dmc_proprio-other.json.gz",
    ]
    for path in (tmp_path / "out").iterdir():
        for record in json.loads(gzip.decompress(path.read_bytes())):
            assert set(record) == {"task", "method", "seed", "xs", "ys"}
            assert isinstance(record["seed"], str) and len(record["xs"]) == len(record["ys"])
    result = script("view", runs, "--export", tmp_path / "out", code=2)
    assert "there already" in result.stderr


@pytest.mark.slow
def test_every_picture_format_axis_and_option(runs, published, tmp_path):
    outputs = [tmp_path / f"figure.{suffix}" for suffix in ("png", "svg", "pdf", "csv")]
    script(
        *("plot", runs, published, "--band", "bootstrap", "--title", "Title", "--no-counts"),
        *("--columns", 2, "--size", 2, 2, "--xlim", 0, 15e3, "--ylim", 0, 50, "--dpi", 50),
        *("--aggregates", "iqm", "--methods", "other", "name", "--rename", "other=Other"),
        *("--out", *outputs),
    )
    assert outputs[1].read_text().startswith("<?xml")
    assert outputs[2].read_bytes().startswith(b"%PDF")
    assert {row["panel"] for row in read_csv(outputs[3])} >= {"dmc_iqm", "dmc_walker_run"}
    for axis, last in (("updates", 5000), ("steps", 10_000)):
        script("plot", runs, "--x", axis, "--out", outputs[3])
        assert max(float(row["x"]) for row in read_csv(outputs[3])) == last


@pytest.mark.parametrize("name", ["plot", "table", "view"])
def test_help_needs_no_matplotlib_and_shows_what_the_user_can_type(name):
    path = ROOT / "scores" / f"{name}.py"
    for start, program in (
        (f"runpy.run_path({str(path)!r}, run_name='__main__')", f"python {path}"),
        (f"importlib.import_module('scores.{name}').main(['--help'])", f"dreamerv3 {name}"),
    ):
        code = "import importlib, runpy, sys; sys.modules['matplotlib'] = None\n"
        code += f"sys.argv[:] = [{program.removeprefix('python ')!r}, '--help']\n" + start
        result = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT
        )
        assert result.returncode == 0, result.stderr
        assert f"usage: {program} PATH" in result.stdout
        assert f"  {program} ~/logdir" in result.stdout.split("examples:")[1]


@pytest.mark.parametrize("name", ["view", "table"])
def test_a_reader_that_leaves_ends_it_quietly(runs, name):
    """As in `python scores/view.py ~/logdir | head`; what is left in a buffer counts as well."""
    process = subprocess.Popen(
        [sys.executable, ROOT / "scores" / f"{name}.py", runs],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"},
    )
    process.stdout.close()
    with process.stderr as stream:
        assert not [line for line in stream if not line.startswith("note: ")]
    assert process.wait() == 0


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["plot", "nowhere"], "No such file or folder: nowhere"),
        (["plot", "{runs}", "--out", "x.gif"], "must end with one of"),
        (["plot", "{runs}", "--bins", "0"], "above 0"),
        (["plot", "{runs}", "--xlim", "5", "5"], "LOW < HIGH"),
        (["plot", "{runs}", "--x", "hours"], "over hours"),
        (["plot", "{runs}", "--panels", "aggregates"], "No panel is left"),
        (["plot", "{runs}", "--tasks", "dmc_walkr_walk"], "such as dmc_walker_walk"),
        (["plot", "{runs}", "--out", "/proc/none/x.png"], "/proc/none"),
        (["table", "{runs}", "--at", "many"], "expected a number above 0"),
        (["table", "{runs}", "--at", "1e9", "--window", "1"], "No run has a score"),
        (["table", "{runs}", "--reference", "x"], "no reference 'x'"),
        (["view", "{runs}/20250103T000000"], "No finished episodes"),
        (["view", "{runs}", "--export", "x.gz"], "named *.json.gz"),
        (["view", "{runs}", "--rename", "x"], "OLD=NEW"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(runs, tmp_path, arguments, message):
    arguments = [text.replace("{runs}", str(runs)) for text in arguments]
    result = script(*arguments, code=2, cwd=tmp_path)
    (error,) = [line for line in result.stderr.splitlines() if "error:" in line]
    assert message in error


@pytest.mark.slow
def test_a_short_run_beside_long_ones_is_visible(runs, published, tmp_path):
    script("plot", runs, published, "--bins", 2, "--xlim", 0, 1e6, "--out", "a.svg", cwd=tmp_path)
    assert (tmp_path / "a.svg").stat().st_size > 1000


@needs_official
@pytest.mark.slow
def test_every_official_file_loads():
    result = script("view", OFFICIAL)
    lines = result.stdout.splitlines()[1:]
    assert len(lines) == len(list(OFFICIAL.glob("*.json.gz")))
    assert "Traceback" not in result.stderr
    index = OFFICIAL.parent / "facts" / "official_scores_index.json"
    if index.is_file():
        runs = sum(int(re.split(r"  +", line)[4]) for line in lines)
        assert runs == sum(entry["runs"] for entry in json.loads(index.read_text()))


@needs_official
@pytest.mark.parametrize("at, mean, median", [(490e3, 757.8, 868.5), (250e3, 675.4, 790.4)])
def test_recomputed_means_of_the_control_suite(tmp_path, at, mean, median):
    path = OFFICIAL / "dmc_proprio-dreamerv3.json.gz"
    script("table", path, "--at", at, "--format", "csv", "--out", "t.csv", cwd=tmp_path)
    rows = {row["row"]: row for row in read_csv(tmp_path / "t.csv")}
    assert round(float(rows["task mean"]["mean"]), 1) == mean
    assert round(float(rows["task median"]["mean"]), 1) == median
    assert rows["task mean"]["seeds"] == "5"


@needs_official
def test_window_of_25k_frames_gives_table_11(tmp_path):
    path = OFFICIAL / "dmc_proprio-dreamerv3.json.gz"
    arguments = ("--at", 490e3, "--window", 25e3, "--format", "csv", "--out", "t.csv")
    script("table", path, *arguments, cwd=tmp_path)
    rows = [row for row in read_csv(tmp_path / "t.csv") if row["kind"] == "task"]
    assert len(rows) == 18
    for row in rows:
        np.testing.assert_allclose(float(row["mean"]), float(row["reference"]), atol=0.51)


@needs_official
@pytest.mark.slow
def test_official_curves_with_own_runs(runs, tmp_path):
    paths = [OFFICIAL / f"dmc_proprio-{method}.json.gz" for method in OFFICIAL_METHODS]
    result = script("plot", runs, *paths, "--resamples", 50, "--dpi", 40, cwd=tmp_path)
    assert "1 of the 18" in result.stderr
    rows = read_csv(tmp_path / "curves.csv")
    panels = {row["panel"] for row in rows}
    assert len(panels) == 21 and {"dmc_mean", "dmc_median", "dmc_iqm"} < panels
    assert {row["method"] for row in rows} == {*OFFICIAL_METHODS, "name", "name (eval)"}
    final = [row for row in rows if (row["panel"], row["method"]) == ("dmc_mean", "dreamerv3")][-1]
    assert (float(final["x"]), round(float(final["mean"]), 1)) == (490e3, 757.8)
