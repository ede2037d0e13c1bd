import sys

import pytest

from embodied.core.config import Config, UnknownKeyError, ValueTypeError
from embodied.core.flags import FlagError, Flags, split_flags

CONFIG = Config(
    steps=100,
    rate=0.5,
    name="x",
    online=True,
    outputs=["jsonl", "scope"],
    devices=[0],
    enc={"units": 8, "depth": 2},
    dec={"units": 8},
)


def parse(line):
    return Flags(CONFIG).parse(line.split())


@pytest.mark.parametrize(
    ("line", "key", "expected"),
    [
        ("--steps 5", "steps", 5),
        ("--steps=5", "steps", 5),
        ("--steps 1e3", "steps", 1000),
        ("--steps -1", "steps", -1),
        ("--steps 1 --steps 2", "steps", 2),
        ("--rate 3", "rate", 3.0),
        ("--rate=1e-5", "rate", 1e-5),
        ("--name a=b", "name", "a=b"),
        ("--name=a=b", "name", "a=b"),
        ("--name=--dashes", "name", "--dashes"),
        ("--name a,b", "name", "a,b"),
        ("--name=", "name", ""),
        ("--online no", "online", False),
        ("--online=Off", "online", False),
        ("--outputs a b", "outputs", ("a", "b")),
        ("--outputs a,b", "outputs", ("a", "b")),
        ("--outputs=a,b", "outputs", ("a", "b")),
        ("--outputs a", "outputs", ("a",)),
        ("--outputs=", "outputs", ()),
        ("--outputs+ c", "outputs", ("jsonl", "scope", "c")),
        ("--outputs+=c,d", "outputs", ("jsonl", "scope", "c", "d")),
        ("--outputs a --outputs+ b --outputs+ c d", "outputs", ("a", "b", "c", "d")),
        ("--devices 2 3", "devices", (2, 3)),
        ("--devices -1 3", "devices", (-1, 3)),
        ("--enc.units 5", "enc.units", 5),
    ],
)
def test_values(line, key, expected):
    changed = parse(line)
    assert changed[key] == expected
    assert type(changed[key]) is type(expected)
    untouched = dict(CONFIG.flat)
    del untouched[key]
    assert {name: changed[name] for name in untouched} == untouched


def test_patterns():
    changed = parse(r"--.*\.units 64 --dec.units 32")
    assert (changed.enc.units, changed.dec.units, changed.enc.depth) == (64, 32, 2)
    assert parse(r"--.*\.units=4").enc.units == 4
    assert parse("--enc..+ 7").enc == {"units": 7, "depth": 7}


@pytest.mark.parametrize(
    ("line", "error", "message"),
    [
        ("--steps", FlagError, "--steps has no value"),
        ("--steps --rate 1", FlagError, "--steps has no value"),
        ("--online", FlagError, "--online has no value"),
        ("--outputs+", FlagError, "no value"),
        ("steps 5", FlagError, "'steps' does not belong to a flag"),
        ("--steps=5 6", FlagError, "'6' does not belong to a flag"),
        ("--steps 5 6", FlagError, "takes one value, got 2"),
        ("--steps+ 5", FlagError, "not a list"),
        ("--stepps 5", UnknownKeyError, "'stepps'.*'steps'"),
        ("--units 5", UnknownKeyError, r"'enc\.units' or 'dec\.units'"),
        ("--enc 5", UnknownKeyError, "section"),
        (r"--.*\.unit 5", UnknownKeyError, "matches no option.*units"),
        ("--steps abc", ValueTypeError, "'steps' takes an integer .*'abc'"),
        ("--steps 1.5", ValueTypeError, "'steps'"),
        ("--steps=", ValueTypeError, "'steps'"),
        ("--devices a", ValueTypeError, "'devices'"),
        ("--online maybe", ValueTypeError, "true or false"),
    ],
)
def test_mistakes(line, error, message):
    with pytest.raises(error, match=message):
        parse(line)


def test_parse_known_returns_the_rest():
    config, rest = Flags(CONFIG).parse_known(
        ["--steps", "5", "--other", "a", "b", "--third=1", "--rate", "2"]
    )
    assert (config.steps, config.rate) == (5, 2.0)
    assert rest == ["--other", "a", "b", "--third=1"]
    with pytest.raises(ValueTypeError):
        Flags(CONFIG).parse_known(["--steps", "x"])


def test_assignments_list_only_what_was_set():
    assert Flags(CONFIG).assignments([r"--.*\.units", "3", "--outputs+", "c"]) == {
        "enc.units": 3,
        "dec.units": 3,
        "outputs": ("jsonl", "scope", "c"),
    }
    assert Flags(CONFIG).assignments([]) == {}


def test_keyword_defaults_and_process_arguments(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["program", "--port", "1e3"])
    assert Flags(port=5000, host="local").parse() == {"port": 1000, "host": "local"}


def test_split_flags():
    flags = split_flags(["--a", "1", "-2", "--b=3", "--c"])
    assert [(flag.name, flag.values) for flag in flags] == [
        ("a", ("1", "-2")),
        ("b", ("3",)),
        ("c", ()),
    ]
