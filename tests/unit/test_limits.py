"""Every option with values that cannot be meant: one sentence, or a start that goes on."""

import pathlib
import re

import pytest

from dreamerv3.cli import command_line, factories, limits
from dreamerv3.cli.presets import Presets
from embodied.core.checkpoint import Checkpoint
from embodied.core.config import ConfigError
from embodied.envs.errors import EnvError

OPTIONS = Presets.load().defaults.flat
NUMBERS = [key for key, value in OPTIONS.items() if list(limits._numbers(value))]


def start(folder: pathlib.Path, flag: str) -> None:
    """Do what a start does before anything is compiled."""
    config = command_line.parse([f"--logdir={folder}", flag]).config
    options = factories.make_options(config)
    replay = factories.make_replay(config, "replay")
    factories.make_stream(config, replay, "train")
    Checkpoint(folder, options.keep, options.keep_every)
    replay.close()


@pytest.mark.slow
@pytest.mark.parametrize("value", ["0", "-1", "", "1e18", "nan", "0,0"])
def test_no_value_of_an_option_ends_in_a_traceback(tmp_path, monkeypatch, value):
    presets = Presets.load()
    monkeypatch.setattr(Presets, "load", lambda: presets)
    for key, default in OPTIONS.items():
        if isinstance(default, bool) or ("," in value and not isinstance(default, tuple)):
            continue
        if value == "nan" and key not in NUMBERS:
            continue
        try:
            start(tmp_path, f"--{key}={value}")
        except (ConfigError, EnvError) as error:
            assert len(str(error).splitlines()) == 1, (key, value)
        except Exception as error:
            pytest.fail(f"--{key}={value}: {type(error).__name__}: {error}")


def test_every_number_has_limits_and_every_limit_an_option():
    patterns = {
        next((x for x, *_ in limits.LIMITS if re.fullmatch(x, key)), key) for key in NUMBERS
    }
    assert patterns == {pattern for pattern, *_ in limits.LIMITS}


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--run.keep=0", "'run.keep' has to be at least 1, got 0"),
        ("--run.keep_every=-1", "'run.keep_every' has to be at least 0, got -1"),
        ("--run.steps=nan", "'run.steps' has to be a finite number, got nan"),
        ("--jax.train_devices=0,0", r"'jax.train_devices' is \[0, 0\].*each of them once"),
        ("--jax.policy_devices=-1", r"'jax.policy_devices' has to be at least 0, got \[-1\]"),
        ("--jax.policy_devices=", "'jax.policy_devices' is .*one or more"),
        ("--agent.imag_loss.lam=2", "'agent.imag_loss.lam' has to be at most 1, got 2"),
        ("--env.dmc.size=64,0", "'env.dmc.size' has to be at least 1"),
        ("--logger.filter=[", r"'logger.filter' is '\[', expected a regular expression"),
        ("--logdir=", "'logdir' is empty"),
    ],
)
def test_what_is_possible_is_said(flag, words):
    with pytest.raises(ConfigError, match=words):
        command_line.parse([flag])
