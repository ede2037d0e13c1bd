import copy
import pickle

import cloudpickle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embodied.core.config import (
    Config,
    ConfigError,
    UnknownKeyError,
    ValueTypeError,
    convert,
    format_value,
)
from embodied.core.suggest import closest

CONFIG = Config(
    {
        "seed": 0,
        "name": "walker",
        "size": 5e6,
        "online": True,
        "agent": {
            "opt": {"lr": 4e-5, "warmup": 1000},
            "enc": {"units": 1024, "layers": 3, "mults": [2, 3]},
            "dec": {"units": 1024, "layers": 3, "mults": [2, 3]},
        },
        "logger.outputs": ["jsonl", "scope"],
        "empty": [],
    }
)


def test_access():
    assert CONFIG.seed == 0
    assert CONFIG.agent.opt.lr == CONFIG["agent.opt.lr"] == CONFIG["agent"]["opt"]["lr"] == 4e-5
    assert CONFIG.logger.outputs == ("jsonl", "scope")
    assert dict(**CONFIG.agent.opt) == {"lr": 4e-5, "warmup": 1000}
    assert "agent.opt" in CONFIG and "agent.opt.lr" in CONFIG and "seed" in CONFIG
    assert "agent.opt.lrs" not in CONFIG and "seed.x" not in CONFIG and 3 not in CONFIG
    assert list(CONFIG) == ["seed", "name", "size", "online", "agent", "logger", "empty"]
    assert len(CONFIG) == 7
    assert CONFIG.get("nothing", 5) == 5
    assert getattr(CONFIG, "nothing", 5) == 5
    assert list(CONFIG.flat)[-1] == "empty"
    assert CONFIG.flat["agent.enc.mults"] == (2, 3)


def test_immutable():
    with pytest.raises(TypeError):
        CONFIG.seed = 1
    with pytest.raises(TypeError):
        del CONFIG.seed
    with pytest.raises(TypeError):
        CONFIG["seed"] = 1
    with pytest.raises(TypeError):
        CONFIG.agent.opt.lr = 1
    with pytest.raises(TypeError):
        CONFIG.agent.enc.mults[0] = 1
    CONFIG.flat["seed"] = 7
    assert CONFIG.seed == 0
    values = {"list": [1, 2], "section": {"x": 1}}
    config = Config(values)
    values["list"].append(3)
    values["section"]["x"] = 2
    assert config == Config({"list": [1, 2], "section.x": 1})


def test_update_forms():
    for update in (
        {"agent": {"opt": {"lr": 1e-3}}},
        {"agent.opt.lr": 1e-3},
        {"agent": {"opt.lr": 1e-3}},
        {"agent": Config({"opt.lr": 1e-3})},
    ):
        changed = CONFIG.update(update)
        assert changed.agent.opt.lr == 1e-3
        assert changed.agent.opt.warmup == 1000
        assert CONFIG.agent.opt.lr == 4e-5
        assert list(changed.flat) == list(CONFIG.flat)
    assert CONFIG.update(seed=3).seed == 3


def test_patterns_match_the_whole_key():
    changed = CONFIG.update({r".*\.units": 64})
    assert changed.agent.enc.units == changed.agent.dec.units == 64
    changed = CONFIG.update({r".*\.enc": {"units": 8, "layers": 1}})
    assert (changed.agent.enc.units, changed.agent.enc.layers) == (8, 1)
    assert changed.agent.dec == CONFIG.agent.dec
    changed = CONFIG.update({"agent": {r".*\.layers": 2}})
    assert changed.agent.enc.layers == changed.agent.dec.layers == 2
    for pattern in (r".*\.unit", r"\.units", r"enc\.units|nothing", r".*\.enc"):
        with pytest.raises(UnknownKeyError, match="matches no option"):
            CONFIG.update({pattern: 3})
    with pytest.raises(UnknownKeyError, match="not a regular expression"):
        CONFIG.update({"(": 3})


def test_later_updates_win():
    assert CONFIG.update({r".*\.units": 64, "agent.enc.units": 32}).agent.enc.units == 32
    assert CONFIG.update({"agent.enc.units": 32, r".*\.units": 64}).agent.enc.units == 64


def test_unknown_keys_name_the_closest():
    with pytest.raises(UnknownKeyError, match=r"'agent\.opt\.rl'.*'agent\.opt\.lr'"):
        CONFIG.update({"agent.opt.rl": 1})
    with pytest.raises(UnknownKeyError, match=r"'lr'.*'agent\.opt\.lr'"):
        CONFIG.update({"lr": 1})
    with pytest.raises(UnknownKeyError, match=r"Unknown option 'sede'\. Did you mean 'seed'"):
        CONFIG.update(sede=1)
    with pytest.raises(UnknownKeyError, match=r"section.*'agent\.opt\.lr'"):
        CONFIG.update({"agent.opt": 1})
    with pytest.raises(UnknownKeyError):
        CONFIG.update({"seed": {"x": 1}})
    with pytest.raises(KeyError, match="'seed'"):
        CONFIG["sede"]
    with pytest.raises(AttributeError, match="'warmup'"):
        _ = CONFIG.agent.opt.warmups


@pytest.mark.parametrize(
    ("value", "default", "expected"),
    [
        ("1e3", 5, 1000),
        (1e3, 5, 1000),
        ("-1", 5, -1),
        ("1_000", 5, 1000),
        ("3", 0.5, 3.0),
        (3, 0.5, 3.0),
        ("1e-5", 0.5, 1e-5),
        ("inf", 0.5, float("inf")),
        ("yes", False, True),
        ("True", False, True),
        ("on", False, True),
        ("1", False, True),
        (1, False, True),
        ("no", True, False),
        ("OFF", True, False),
        ("false", True, False),
        (0, True, False),
        (5, "text", "5"),
        ("true", "text", "true"),
        ("a,b", ("x",), ("a", "b")),
        ("4, 5", (1,), (4, 5)),
        ("4", (1,), (4,)),
        (4, (1,), (4,)),
        ([1e1, "2"], (1,), (10, 2)),
        ("", (1,), ()),
        ("a,b", (), ("a", "b")),
    ],
)
def test_convert(value, default, expected):
    result = convert("key", value, default)
    assert result == expected
    assert type(result) is type(expected)
    if isinstance(expected, tuple):
        assert [type(entry) for entry in result] == [type(entry) for entry in expected]


@pytest.mark.parametrize(
    ("value", "default"),
    [
        ("1.5", 5),
        (1.5, 5),
        ("nan", 5),
        ("inf", 5),
        ("abc", 5),
        ("", 5),
        (True, 5),
        ("abc", 0.5),
        (False, 0.5),
        ("maybe", True),
        (2, True),
        (None, True),
        (1.0, True),
        (True, "text"),
        ([1], 5),
        (["a"], "text"),
        ("a", (1,)),
        ([[1]], (1,)),
    ],
)
def test_convert_rejects(value, default):
    with pytest.raises(ValueTypeError, match="'key'"):
        convert("key", value, default)


def test_update_keeps_types():
    changed = CONFIG.update({"seed": "1e3", "size": 7, "online": "off", "agent.enc.mults": "1,2,3"})
    assert changed.seed == 1000 and type(changed.seed) is int
    assert changed.size == 7.0 and type(changed.size) is float
    assert changed.online is False
    assert changed.agent.enc.mults == (1, 2, 3)
    with pytest.raises(ValueTypeError, match=r"'seed' takes an integer \(like 0\), got 'abc'"):
        CONFIG.update(seed="abc")


def test_construction_errors():
    for values in ({"a": None}, {"a": [[1]]}, {"a": {1, 2}}):
        with pytest.raises(ConfigError, match="'a'"):
            Config(values)
    for values in ({"a": 1, "a.b": 2}, {"a.b": 1, "a": 2}, {"a..b": 1}, {"a b": 1}, {3: 4}):
        with pytest.raises(ConfigError):
            Config(values)


def test_yaml_round_trip(tmp_path):
    config = Config(
        integer=5,
        big=1e10,
        small=1e-20,
        infinite=float("inf"),
        texts=["", "true", "1e3", "null", "a: b # c", "~/logdir/{timestamp}"],
        flags=[True, False],
        empty=[],
        section={"deep": {"x": 0.1, "y": "no"}},
    )
    path = tmp_path / "config.yaml"
    config.save(path)
    loaded = Config.load(path)
    assert loaded == config
    assert repr(loaded) == repr(config)
    config.update(integer=6).save(path)
    assert Config.load(str(path)).integer == 6
    assert [child.name for child in tmp_path.iterdir()] == ["config.yaml"]
    path.write_text("- 1\n- 2\n")
    with pytest.raises(ConfigError, match="does not hold options"):
        Config.load(path)


@settings(deadline=None, max_examples=25)
@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,3}", fullmatch=True),
        st.recursive(
            st.booleans()
            | st.integers(-(2**63), 2**63)
            | st.floats(allow_nan=False)
            | st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"])),
            lambda leaf: st.dictionaries(st.sampled_from("abc"), leaf, min_size=1, max_size=2),
            max_leaves=4,
        ),
        max_size=4,
    )
)
def test_yaml_round_trip_of_anything(tmp_path_factory, values):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    config = Config(values)
    config.save(path)
    assert repr(Config.load(path)) == repr(config)
    assert Config(config.flat) == config


def test_copies_and_equality():
    for clone in (
        pickle.loads(pickle.dumps(CONFIG)),
        cloudpickle.loads(cloudpickle.dumps(CONFIG)),
        copy.deepcopy(CONFIG),
        copy.copy(CONFIG),
        Config(CONFIG),
        Config(CONFIG.flat),
    ):
        assert clone == CONFIG
        assert hash(clone) == hash(CONFIG)
        assert list(clone.flat) == list(CONFIG.flat)
    assert CONFIG.update(seed=1) != CONFIG
    assert CONFIG != 5
    assert Config(a=1) == {"a": 1}


def test_printing():
    assert "agent.opt.lr" in str(CONFIG)
    assert eval(repr(CONFIG)) == CONFIG
    assert format_value(5000000.0) == "5e6"
    assert format_value(1.1e6) == "1.1e6"
    assert format_value(32.0) == "32.0"
    assert format_value("") == "''"
    assert format_value(("a", "b")) == "[a, b]"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_printed_numbers_read_back(value):
    assert float(format_value(value)) == value


def test_closest():
    names = ["run.steps", "run.envs", "agent.opt.lr", "env.dmc.size", "env.atari.size"]
    assert closest("run.step", names)[0] == "run.steps"
    assert closest("lr", names) == ["agent.opt.lr"]
    assert closest("size", names) == ["env.dmc.size", "env.atari.size"]
    assert closest("zzz", names) == []
