"""The documentation says what the code does."""

import pathlib
import re

import pytest

from dreamerv3.cli import help as help_texts
from dreamerv3.cli.presets import Presets

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "scores" / "README.md", *(ROOT / "docs").glob("*.md")]


@pytest.fixture(scope="module")
def presets():
    return Presets.load()


def test_config_reference_is_up_to_date(presets):
    text = help_texts.PATH.read_text(encoding="utf-8")
    if text != help_texts.markdown(presets):
        pytest.fail("docs/config.md is out of date: run python -m dreamerv3.cli.help")


def test_config_reference_has_every_option_and_preset(presets):
    text = help_texts.markdown(presets)
    for name in (*presets.defaults.flat, *presets.blocks):
        assert text.count(f"| `{name}` |") == 1, name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_and_options_in_the_text_exist(page, presets):
    """Paths of the project and names of options in backticks are real."""
    flat = presets.defaults.flat
    sections = {key.rpartition(".")[0] for key in flat}
    for name in re.findall(r"`([\w./]+)`", page.read_text(encoding="utf-8")):
        if re.match(r"(embodied|dreamerv3|scores|docs|tests|benchmarks)/", name):
            assert (ROOT / name).exists(), name
        if re.match(r"(agent|run|replay|logger|jax)\.\w", name):
            assert name in flat or name in sections, name


def table(page, heading, columns):
    """Rows of a table by the name in the first cell; cells without backticks."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8").split(f"## {heading}\n")[1]
    lines = text.split("\n## ")[0].splitlines()
    rows = [line[1:-1].split("|") for line in lines if line.startswith("| `")]
    rows = [[cell.strip(" `") for cell in row] for row in rows]
    return {row[0]: dict(zip(columns, row[1:], strict=False)) for row in rows}


def test_presets_table_has_what_the_presets_set(presets):
    columns = ("task", "size", "steps", "repeat", "envs", "ratio")
    rows = table("presets.md", "Tasks", columns)
    tasks = {name for name, block in presets.blocks.items() if "task" in block}
    assert rows.keys() == tasks - {"demo"}
    for name, row in rows.items():
        config = presets.defaults.update(presets.changes(name))
        if row["size"] != "own":
            deter = presets.changes(row["size"])["agent.dyn.rssm.deter"]
            assert config.agent.dyn.rssm.deter == deter, name
        assert config.task == row["task"]
        assert config.run.steps == float(row["steps"] or presets.defaults.run.steps), name
        assert config.env.get(config.task.split("_")[0], {}).get("repeat", 1) == int(row["repeat"])
        assert (config.run.envs, config.run.train_ratio) == (int(row["envs"]), float(row["ratio"]))


def test_sizes_table_has_what_the_presets_set(presets):
    columns = ("parameters", "deter", "hidden", "classes", "units", "depth")
    rows = table("presets.md", "Sizes", columns)
    assert list(rows) == presets.sizes
    for name, row in rows.items():
        assert row.pop("parameters") in presets.comments[name]
        agent = presets.defaults.update(presets.changes(name)).agent
        rssm, encoder = agent.dyn.rssm, agent.enc.simple
        values = (rssm.deter, rssm.hidden, rssm.classes, encoder.units, encoder.depth)
        assert tuple(int(value) for value in row.values()) == values, name
