import copy
import functools
import importlib
import inspect
import json
import pathlib
import subprocess
import sys
import tomllib

import pytest

from dreamerv3.cli import checks, command_line
from dreamerv3.cli.presets import Presets, find
from embodied.core.config import ConfigError
from embodied.envs import registry
from embodied.envs.catalog import SUITES
from embodied.jax import heads
from embodied.jax.layers.functions import ACTIVATIONS
from embodied.jax.layers.layer import DISTRIBUTIONS, FANS, init

# The program has to start on a machine without GPU; see the comments of these options.
DELIBERATE = {"jax.platform": "auto", "jax.compute_dtype": "auto"}

# Replaced by run.parallel: environments step in worker processes by default.
DROPPED = {"run.debug", *command_line.DROPPED}

# The public block runs forever; here it is a check that ends by itself.
ADDED = {"debug": [("run", "steps"), ("env",)]}

SIZES = {
    "size1m": (512, 64, 4, 4),
    "size12m": (2048, 256, 16, 16),
    "size25m": (3072, 384, 24, 24),
    "size50m": (4096, 512, 32, 32),
    "size100m": (6144, 768, 48, 48),
    "size200m": (8192, 1024, 64, 64),
    "size400m": (12288, 1536, 96, 96),
}

# Table 2: env steps, action repeat, environments, replay ratio, size. Crafter is not in the table.
TABLE2 = {
    "paper_minecraft": (100e6, 1, 64, 32, "size200m"),
    "paper_dmlab": (100e6, 4, 16, 32, "size200m"),
    "paper_procgen": (50e6, 1, 16, 64, "size200m"),
    "paper_atari": (200e6, 4, 16, 32, "size200m"),
    "paper_atari100k": (400e3, 4, 1, 128, "size200m"),
    "paper_bsuite": (None, 1, 1, 1024, "size200m"),
    "paper_dmc_proprio": (500e3, 2, 16, 512, "size12m"),
    "paper_dmc_vision": (1e6, 2, 16, 512, "size12m"),
    "paper_crafter": (1e6, 1, 1, 512, "size200m"),
}

PAPER_ATARI = {
    "paper_atari": {"repeat": 4, "noops": 0, "actions": "all", "sticky": True, "length": 108000},
    "paper_atari100k": {"repeat": 4, "noops": 0, "actions": "all", "length": 100000},
}

PAPER_RECIPE = {
    "agent.policy_unimix": True,
    "agent.imag_start": "replay",
    "agent.norm_dtype": "compute",
    "agent.slowvalue.copy_first": True,
    "agent.enc.simple.symlog_ints": True,
    "agent.dec.simple.vec_outscale": 0.1,
    "agent.dec.simple.symlog_tol": 1e-8,
    "agent.dec.simple.symexp_pred": True,
} | {
    f"agent.{module}.simple.{key}": value
    for module in ("enc", "dec")
    for key, value in {"mults": (1, 2, 3, 4, 4), "outer": True, "strided": True}.items()
}


@pytest.fixture(scope="module")
def presets():
    return Presets.load()


@pytest.fixture(scope="module")
def public():
    path = pathlib.Path(__file__).parents[1] / "data" / "public_config_values.json"
    return json.loads(path.read_text())


def apply(presets, *names):
    config = presets.defaults
    for name in names:
        config = config.update(presets.changes(name))
    return config


def test_defaults_are_the_public_ones(presets, public):
    ours = presets.defaults.flat
    for key, value in public["defaults"].items():
        if key in DROPPED:
            assert key not in ours
            continue
        expected = DELIBERATE.get(key, tuple(value) if isinstance(value, list) else value)
        assert ours[key] == expected, key
        assert type(ours[key]) is type(expected), key


def test_blocks_are_the_public_ones(presets, public):
    for name, block in public.items():
        if name == "defaults":
            continue
        for key in DROPPED:
            section, _, option = key.rpartition(".")
            block.get(section, {}).pop(option, None)
        ours = copy.deepcopy(presets.blocks[name])
        for *sections, option in ADDED.get(name, ()):
            del functools.reduce(dict.__getitem__, sections, ours)[option]
        assert ours == block, name


def test_every_option_preset_and_section_has_a_comment(presets):
    missing = [key for key in presets.defaults.flat if len(presets.options[key]) < 3]
    missing += [key for key, comment in presets.options.items() if len(comment) < 3]
    missing += [name for name in presets.blocks if len(presets.comments[name]) < 3]
    assert not missing


def test_comments_belong_to_their_lines(presets):
    lines = find().read_text().splitlines()
    for key, comment in presets.options.items():
        assert any(
            line.strip().startswith(key.rsplit(".", 1)[-1] + ":") and line.endswith("# " + comment)
            for line in lines
        ), key


def test_choices(presets):
    assert set(checks.CHOICES) <= set(presets.defaults.flat)
    for name in presets.blocks:
        checks.check_choices(apply(presets, name))
    for given, expected in {"No": "false", "TRUE": "true", "0": "false", "Auto": "auto"}.items():
        config = presets.defaults.update({"run.parallel": given})
        assert checks.check_choices(config).run.parallel == expected
    assert checks.check_choices(presets.defaults) == presets.defaults
    with pytest.raises(ConfigError, match=r"'run\.parallel' cannot be 'never'"):
        checks.check_choices(presets.defaults.update({"run.parallel": "never"}))
    with pytest.raises(ConfigError, match=r"'agent\.imag_start' cannot be 'modle'.*'model'"):
        checks.check_choices(presets.defaults.update({"agent.imag_start": "modle"}))
    with pytest.raises(ConfigError, match=r"'logger\.outputs' cannot be 'csv'"):
        checks.check_choices(presets.defaults.update({"logger.outputs": ["jsonl", "csv"]}))


def test_choices_are_those_of_the_layers():
    assert tuple(ACTIVATIONS) == checks.CHOICES["agent.policy.act"]
    assert checks.CHOICES["agent.value.output"] == heads.CONTINUOUS
    for key in ("agent.policy_dist_disc", "agent.conhead.output"):
        assert set(checks.CHOICES[key]) <= set(heads.DISCRETE)
    initializers = {init(name) for name in checks.CHOICES["agent.policy.winit"]}
    assert {(each.dist, each.fan) for each in initializers} >= {
        (dist, fan) for dist in ("trunc_normal", "normal", "uniform") for fan in FANS
    }
    assert {each.dist for each in initializers} == set(DISTRIBUTIONS)


def test_sizes(presets):
    assert presets.sizes == list(SIZES)
    shapes = json.loads(
        (pathlib.Path(__file__).parents[1] / "oracle" / "param_shapes.json").read_text()
    )
    for name, (deter, hidden, classes, depth) in SIZES.items():
        config = apply(presets, name)
        rssm = config.agent.dyn.rssm
        assert (rssm.deter, rssm.hidden, rssm.classes) == (deter, hidden, classes)
        assert (rssm.stoch, rssm.blocks) == (32, 8)
        for key, value in config.flat.items():
            if key.endswith(".units"):
                assert value == hidden, key
            if key.endswith(".depth"):
                assert value == depth, key
        count = shapes[f"dmc_walker_walk_proprio/{name}"]["trainable"]
        assert presets.comments[name] == f"{count:,} parameters."
    assert apply(presets, "size200m") == presets.defaults


@pytest.mark.parametrize("name", TABLE2)
def test_paper_presets_follow_table_2(presets, name):
    steps, repeat, envs, ratio, size = TABLE2[name]
    config = apply(presets, name)
    suite = config.task.split("_")[0]
    if steps is not None:
        assert config.run.steps == steps / repeat
    assert config.env.get(suite, {}).get("repeat", 1) == repeat
    assert config.run.envs == envs
    assert config.run.train_ratio == ratio
    assert (config.batch_size, config.batch_length, config.replay_context) == (16, 64, 1)
    for key, value in presets.changes(size).items():
        assert config[key] == value, key
    for key, value in PAPER_RECIPE.items():
        assert config[key] == value, key
        assert presets.defaults[key] != value, key


def test_paper_presets_have_the_environments_of_the_paper(presets):
    for name, options in PAPER_ATARI.items():
        suite = name.removeprefix("paper_")
        config = apply(presets, name)
        assert {key: config.env[suite][key] for key in options} == options
    # Discrete vectors are encoded as numbers, but predicted by their classes.
    simple = apply(presets, "paper_recipe").agent.dec.simple
    assert not simple.symlog_ints


def test_paper_presets_change_nothing_else(presets):
    for name in TABLE2:
        allowed = {*PAPER_RECIPE, "task", "run.steps", "run.envs", "run.train_ratio"}
        allowed |= set(presets.changes("size200m"))
        changed = {key for key in presets.changes(name) if not key.startswith("env.")}
        assert changed <= allowed


def test_options_of_environments_are_their_arguments(presets):
    for name, suite in SUITES.items():
        if name in ("gymnasium", "gym"):  # Takes any.
            continue
        target = getattr(importlib.import_module(suite.module), suite.name)
        arguments = dict(list(inspect.signature(target).parameters.items())[1:])
        options = dict(presets.defaults.env.get(name, {}))
        if suite.pure:
            options.pop(registry.PICTURES, None)
        assert options.keys() == arguments.keys() - {"seed", "index"}, name
        for key, value in options.items():
            assert type(value) is type(arguments[key].default), (name, key)


def test_every_suite_has_its_extra():
    project = tomllib.loads(find().with_name("pyproject.toml").read_text())["project"]
    extras = {suite.extra for suite in SUITES.values() if suite.extra}
    assert extras <= set(project["optional-dependencies"])


def test_unknown_preset(presets):
    with pytest.raises(ConfigError, match=r"Unknown preset 'size12'\..*'size12m'"):
        presets.changes("size12")
    assert presets.changes("defaults") == {}


def test_loading_imports_nothing_heavy():
    code = (
        "import sys; from dreamerv3.cli.presets import Presets; Presets.load();"
        "print([m for m in ('jax', 'dm_control', 'mujoco') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stderr
