"""Stored steps that do not fit a run are refused before anything is compiled."""

import numpy as np
import pytest

from dreamerv3.cli import factories
from dreamerv3.cli.presets import Presets
from dreamerv3.cli.stored_steps import check_keys, check_stored
from embodied.core.config import ConfigError
from embodied.core.replay import Replay
from embodied.core.space import Space
from embodied.jax import compiled

OBS = {"vector": Space(np.float32, 3), "reward": Space(np.float32), "log/x": Space(np.float32)}
ACT = {"action": Space(np.int32, (), 0, 4)}
EXT = {
    "dyn/deter": Space(np.float32, 8),
    "consec": Space(np.int32),
    "stepid": Space(np.uint8, 20),
}


def store(folder, *groups):
    replay = Replay(length=4, directory=folder)
    spaces = {k: v for spaces in groups for k, v in spaces.items() if k not in ("consec", "stepid")}
    for _ in range(8):
        replay.add({key: np.zeros(space.shape, space.dtype) for key, space in spaces.items()})
    replay.save()


@pytest.fixture
def config(tmp_path):
    return Presets.load().defaults.update(logdir=str(tmp_path))


def test_steps_that_fit_and_no_steps_are_accepted(config, tmp_path):
    check_stored(config, OBS, ACT, EXT)
    store(tmp_path / "replay", OBS, ACT, {**EXT, "dyn/deter": Space("bfloat16", 8)})
    (tmp_path / "replay" / "foreign.npz").write_bytes(b"what is no chunk is not looked at")
    check_stored(config, OBS, ACT, EXT)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"new": Space(np.float32)}, r"key 'new': got nothing, expected float32\(\)"),
        ({"vector": Space(np.float32, 4)}, r"'vector': got float32\(3,\), expected float32\(4,\)"),
        ({"reward": Space(np.int32)}, r"'reward': got float32\(\), expected int32\(\)"),
        ({"vector": None}, r"'vector': got float32\(3,\), expected nothing"),
    ],
)
def test_steps_of_another_environment_are_refused(config, tmp_path, change, words):
    store(tmp_path / "replay", OBS, ACT, EXT)
    obs = {key: space for key, space in {**OBS, **change}.items() if space}
    with pytest.raises(ConfigError, match=f"{tmp_path}/replay.*{words}.*another folder") as error:
        check_stored(config, obs, ACT, EXT)
    assert "replay_context" not in str(error.value)


def test_steps_without_latents_are_refused_with_a_way_to_learn_from_them(config, tmp_path):
    store(tmp_path / "other" / "replay", OBS, ACT, {"more": Space(bool)})
    config = config.update({"script": "offline", "run.from_replay": str(tmp_path / "other")})
    with pytest.raises(ConfigError, match=r"'dyn/deter'.*--replay_context 0, which starts"):
        check_stored(config, OBS, ACT, EXT)
    check_stored(config.update(replay_context=0), OBS, ACT, {})


def test_evaluation_steps_are_compared_too(config, tmp_path):
    store(tmp_path / "eval_replay", OBS, ACT)
    check_stored(config, OBS, ACT, EXT)
    with pytest.raises(ConfigError, match=f"{tmp_path}/eval_replay"):
        check_stored(config.update(script="train_eval"), OBS, ACT, EXT)


@pytest.mark.parametrize("script", ["train", "collect"])
def test_nothing_is_compiled_before(config, tmp_path, monkeypatch, script):
    def compile_(*args, **kwargs):
        raise AssertionError("compiled before stored steps were compared")

    monkeypatch.setattr(compiled.CompiledFunction, "compile", compile_)
    presets = Presets.load()
    config = config.update(presets.changes("debug")).update(script=script)
    store(tmp_path / "replay", OBS, ACT)
    make = factories.make_agent if script == "train" else factories.make_acting_agent
    with pytest.raises(ConfigError, match="are not those of this task and agent"):
        make(config)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("action", "an action and also an observation"),
        ("dyn/deter", "stored by the agent and also an observation"),
        ("consec", "an observation and also a key of the program"),
    ],
)
def test_keys_with_two_meanings_are_refused(key, words):
    with pytest.raises(ConfigError, match=f"'{key}' is {words}"):
        check_keys({**OBS, key: Space(np.float32)}, ACT, EXT)
