"""The diagnosis of a machine, `python -m dreamerv3.doctor`."""

import importlib.util
import re
import shutil
import types

import psutil
import pytest

from dreamerv3.cli import doctor
from embodied.envs import gl


def test_a_machine_that_can_run_the_command(tmp_path, capsys):
    doctor.main(["--configs", "debug", "--logdir", str(tmp_path / "run")])
    output = capsys.readouterr().out
    assert output.endswith("No problem found.\n")
    for title in doctor.CHECKS:
        assert f"\n{title}\n" in f"\n{output}"
    assert re.search(r"ok +jax \d+\.\d+.*numpy \d", output)
    assert "JAX runs on cpu" in output
    assert "task dummy_disc: observations image, vector" in output
    assert re.search(r"the replay grows to 1,000 items: [\d.]+ MB of memory", output)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not importlib.util.find_spec("dm_control"), reason="needs dm_control")
def test_problems_come_with_their_fixes(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(gl, "backend_works", lambda *args: False)
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    memory = types.SimpleNamespace(available=10**9)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: types.SimpleNamespace(free=2 * 10**9))
    flags = ["--configs", "dmc_vision", "--jax.platform", "tpu", "--logdir", str(tmp_path)]
    with pytest.raises(SystemExit) as error:
        doctor.main(flags)
    assert error.value.code == 1
    output = capsys.readouterr().out
    problems = re.findall(r"PROBLEM +(.*)\n +-> (.*)\n", output)
    assert "jax.platform='tpu'" in problems[0][0] and "jax.platform auto" in problems[0][1]
    assert "libosmesa6" in problems[1][1]
    # The task and the agent for it cannot be made either, or memory and disk do not suffice.
    also = "task dmc_walker_walk|the agent|The replay needs|parameters and optim|checkpoints"
    assert [text for text, _ in problems[2:] if not re.search(also, text)] == []
    assert f"Problems: {len(problems)}." in output


@pytest.mark.slow
def test_memory_that_does_not_suffice_gives_a_size_that_fits(tmp_path, capsys, monkeypatch):
    memory = types.SimpleNamespace(available=10**9)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    flags = ["--configs", "debug", "--run.steps", "1e9", "--replay.size", "1e6"]
    with pytest.raises(SystemExit):
        doctor.main([*flags, "--logdir", str(tmp_path)])
    output = capsys.readouterr().out
    size = re.search(r"PROBLEM +The replay needs .*\n +-> --replay.size (\S+), or", output)
    doctor.main([*flags[:-1], size[1], "--logdir", str(tmp_path)])


def test_mistakes_on_the_command_line():
    with pytest.raises(SystemExit) as error:
        doctor.main(["--configs", "debgu"])
    assert error.value.code == 2
