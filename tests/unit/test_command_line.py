import os
import re

import pytest

from dreamerv3.cli import command_line, commands
from dreamerv3.cli.presets import Presets
from embodied.core.config import ConfigError
from embodied.envs.errors import UnknownTask


def parse(line, **kwargs):
    return command_line.parse(line.split(), **kwargs)


def fails(capsys, line):
    with pytest.raises(SystemExit) as info:
        command_line.resolve(line.split())
    captured = capsys.readouterr()
    assert info.value.code == 2
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    return captured.err


def prints(capsys, line):
    with pytest.raises(SystemExit) as info:
        command_line.resolve(line.split())
    assert info.value.code == 0
    return capsys.readouterr().out


def test_defaults():
    command = parse("")
    assert command.config.task == "dummy_disc"
    assert set(command.sources.values()) == {"default"}
    assert not command.notes


@pytest.mark.parametrize("line", ["--configs dmc_proprio size12m", "--configs=dmc_proprio,size12m"])
def test_headline_command(line):
    command = parse(f"{line} --run.steps 3e3 --agent.opt.lr=1e-4")
    config, sources = command.config, command.sources
    assert config.task == "dmc_walker_walk"
    assert config.agent.dyn.rssm.deter == 2048
    assert config.env.dmc.image is False
    assert config.run.steps == 3000
    assert sources["task"] == "preset dmc_proprio"
    assert sources["agent.dyn.rssm.deter"] == "preset size12m"
    assert sources["run.train_ratio"] == "preset dmc_proprio"
    assert sources["run.steps"] == sources["agent.opt.lr"] == "flag"
    assert sources["seed"] == "default"
    assert list(sources) == list(config.flat)
    assert not command.notes


@pytest.mark.parametrize(
    ("names", "deter", "note"),
    [
        ("dmc_proprio", 512, None),
        ("size12m dmc_proprio", 2048, "'size12m' is kept"),
        ("size25m paper_dmc_proprio", 3072, "'size25m' is kept"),
        ("dmc_proprio size12m", 2048, None),
        ("size1m size12m", 2048, "'size12m' replaces values of 'size1m'"),
        ("size12m size1m dmc_proprio", 512, "'size1m' replaces values of 'size12m'"),
        ("size25m dmc_proprio size12m", 2048, "'size25m' is kept"),
        ("size12m dmc_vision", 2048, None),
        ("size12m debug", 8, "'debug' replaces values of 'size12m'"),
        ("debug size12m", 2048, None),
        ("dmc_proprio debug", 8, None),
    ],
)
def test_the_size_that_is_named_wins(names, deter, note):
    command = parse(f"--configs {names}")
    assert command.config.agent.dyn.rssm.deter == deter
    if note:
        assert any(note in text for text in command.notes)
    else:
        assert not command.notes


def test_kept_size_is_whole():
    kept = parse("--configs size12m dmc_proprio")
    last = parse("--configs dmc_proprio size12m")
    assert kept.config.update(logdir="") == last.config.update(logdir="")
    assert kept.sources == last.sources


def test_flags_win_over_presets_and_each_other():
    command = parse(r"--.*\.units 32 --configs debug --agent.policy.units 16")
    assert command.config.agent.value.units == 32
    assert command.config.agent.policy.units == 16
    assert command.sources["agent.value.units"] == "flag"


def test_arguments_of_foreign_environments():
    command = parse(
        "--env.custom.size 3 --env.custom.rate 0.5 --env.custom.grid 4 5 --env.custom.name x"
        " --env.custom.fast true --env.gymnasium.render_mode rgb_array --env.custom.size 1e1"
    )
    assert command.config.env.custom == {
        "size": 10, "rate": 0.5, "grid": [4, 5], "name": "x", "fast": True
    }  # fmt: skip
    assert type(command.config.env.custom.size) is int
    assert command.config.env.gymnasium.render_mode == "rgb_array"
    assert command.sources["env.custom.size"] == "flag"
    with pytest.raises(ConfigError, match="no value"):
        parse("--env.custom.size 3 --env.custom.size")
    with pytest.raises(ConfigError, match="Unknown option"):
        parse("--env.custm.size 3")


def test_logdir():
    logdir = parse("--logdir ~/runs/{timestamp}/a").config.logdir
    pattern = re.escape(os.path.expanduser("~/runs/")) + r"\d{8}T\d{6}F\d{6}/a"
    assert re.fullmatch(pattern, logdir)
    assert parse("--logdir x").config.logdir == os.path.abspath("x")


def test_report_length_follows_a_short_batch_length():
    command = parse("--batch_length 10")
    assert command.config.report_length == 10
    assert "report_length is cut to 10" in command.notes[0]
    with pytest.raises(ConfigError, match="at most 10"):
        parse("--batch_length 10 --report_length 11")
    with pytest.raises(ConfigError, match="'batch_length' has to be at least 1"):
        parse("--batch_length 0")


@pytest.mark.parametrize(
    ("line", "offender", "suggestions"),
    [
        ("--configs dmc_propri", "'dmc_propri'", ["'dmc_proprio'", "size12m"]),
        ("--configs sise12m", "'sise12m'", ["'size12m'"]),
        ("--configs", "--configs", ["--configs NAME"]),
        ("--configs --seed 1", "--configs", ["--configs NAME"]),
        ("--taks dmc_walker_walk", "'taks'", ["'task'"]),
        ("--lr 1e-3", "'lr'", ["'agent.opt.lr'"]),
        ("--confgs dmc_proprio", "'confgs'", ["'configs'"]),
        ("--config dmc_proprio", "'config'", ["'configs'"]),
        ("--list_task", "'list_task'", ["'list_tasks'"]),
        ("--agent.opt 3", "'agent.opt'", ["'agent.opt.lr'"]),
        ("--task dmc_walker_wlak", "wlak", ["'dmc_walker_walk'"]),
        ("--task dmcwalker", "dmcwalker", ["dmc"]),
        ("--batch_size big", "'batch_size'", ["an integer", "'big'"]),
        ("--replay.online perhaps", "'replay.online'", ["true or false"]),
        ("--run.debug True", "'run.debug'", ["'run.parallel'"]),
        ("--seed", "--seed", ["--seed VALUE"]),
        ("--seed --task dummy_disc", "--seed", ["--seed VALUE"]),
        (r"--.*\.unit 5", r".*\.unit", ["'agent.enc.simple.units'"]),
        ("--configs atari crafter", "'atari'", ["'crafter'", "contradict"]),
        ("--configs dmc_proprio dmc_vision", "'dmc_vision'", ["contradict"]),
        ("--run.num_envs 3", "'run.num_envs'", ["'run.envs'"]),
        ("--errfile True", "'errfile'", ["ends the others"]),
        ("--run.agent_process True", "'run.agent_process'", ["process of its own"]),
        ("--jax.precision float32", "'jax.precision'", ["'jax.compute_dtype'"]),
        ("--script trian", "'trian'", ["train"]),
        ("--jax.platform cuda1", "'cuda1'", ["'cuda'"]),
        ("--logger.outputs jsonl csv", "'csv'", ["scope"]),
        ("--script evaluate", "'evaluate'", ["one of train", "eval_only"]),
        ("--replay.size 100", "'replay.size'", ["1040 steps"]),
        ("--replay.fracs.uniform 0.5", "'replay.fracs.*'", ["add up to 1"]),
        (
            "--jax.compute_dtype float16 --replay.fracs.uniform 0.5 --replay.fracs.priority 0.5",
            "'replay.fracs.priority' is 0.5",
            ["float16", "bfloat16"],
        ),
        ("--replay.prio.initial banana", "'replay.prio.initial'", ["'banana'"]),
        ("--run.envs 0", "'run.envs'", ["at least 1"]),
        ("--replica 1", "'replica'", ["below 'replicas'"]),
        (
            "--replicas 2 --jax.coordinator_address a:1 --run.keep_best True --script train_eval",
            "'run.keep_best'",
            ["scores of their own"],
        ),
        ("--help me", "--help", ["no value"]),
        ("--agent.repl_loss.slowtar True", "'agent.repl_loss.slowtar'", ["nothing reads it"]),
        ("--agent_class dreamerv3", "'dreamerv3'", ["package.module:Class"]),
        ("--agent_class dreamer.agent:Dreamer", "'dreamer'", ["no module"]),
        ("--agent_class embodied:Agnt", "'Agnt'", ["no class"]),
        ("--agent_class pathlib:Path", "'pathlib:Path'", ["init_policy", "docs/agents.md"]),
        (
            "--agent_class embodied.core.interfaces:Agent",
            "embodied.Agent",
            ["policy, report, save"],
        ),
        ("--agent_config nothing.yaml", "nothing.yaml", ["No such file"]),
    ],
)
def test_mistakes(capsys, line, offender, suggestions):
    message = fails(capsys, line)
    assert offender in message
    for suggestion in suggestions:
        assert suggestion in message


def test_renamed_options_exist():
    options = parse("").config.flat
    for old, new in command_line.RENAMED.items():
        assert old not in options
        assert new in options


def test_help_lists_every_command_option_and_choice(capsys):
    text = prints(capsys, "--help")
    for name, command in commands.COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(command.about)}$", text, re.MULTILINE)
    words = " ".join(text.split())
    assert "state come from. One of: model, replay." in words
    assert "their name. Any of: jsonl, scope, tensorboard" in words
    for key in parse("").config.flat:
        assert re.search(rf"^  --{re.escape(key)} \S", text, re.MULTILINE), key
    assert re.search(r"--agent\.imag_length 15 +Imagined steps\.", text)
    assert all(len(line) <= 130 for line in text.splitlines())
    assert prints(capsys, "-h") == text


def test_list_configs(capsys):
    text = prints(capsys, "--list_configs")
    for name in Presets.load().blocks:
        assert re.search(rf"^{name} ", text, re.MULTILINE), name
    assert re.search(r"^size12m +9,738,019 parameters", text, re.MULTILINE)
    assert "run.train_ratio 1024" in text


def test_list_tasks(capsys):
    text = prints(capsys, "--list_tasks")
    assert "dmc_walker_walk" in text
    assert "dummy_disc" in text


def test_print_config(capsys):
    text = prints(capsys, "--print_config --configs dmc_proprio size12m --seed 3")
    rows = {line.split()[0]: line for line in text.splitlines()}
    assert re.fullmatch(r"seed +3 +\(flag\)", rows["seed"])
    assert re.fullmatch(r"task +dmc_walker_walk +\(preset dmc_proprio\)", rows["task"])
    assert re.fullmatch(
        r"agent\.dyn\.rssm\.deter +2048 +\(preset size12m\)", rows["agent.dyn.rssm.deter"]
    )
    assert re.fullmatch(r"batch_size +16 +\(default\)", rows["batch_size"])
    assert list(rows) == list(parse("").config.flat)


def test_print_config_needs_no_installed_task(monkeypatch, capsys):
    def missing(task):
        raise UnknownTask(f"'{task}' is missing.")

    monkeypatch.setattr(command_line.registry, "check_task", missing)
    with pytest.raises(UnknownTask):
        parse("--configs atari")
    with pytest.raises(UnknownTask):
        parse("--task atari_pong", dry=True)
    assert "'atari_pong' is missing." in parse("--configs atari", dry=True).notes
    assert "atari_pong" in prints(capsys, "--configs atari --print_config")


def test_notes_are_printed(capsys):
    config = command_line.resolve(["--configs", "size12m", "dmc_proprio"])
    assert config.agent.dyn.rssm.deter == 2048
    assert "note: " in capsys.readouterr().err


def test_commands_are_the_first_word():
    assert commands.split(["doctor", "--help"]) == ("doctor", ["--help"])
    assert commands.split(["train", "--seed", "1"]) == commands.split(["--seed", "1"])
    assert commands.split([]) == ("train", [])
    with pytest.raises(ConfigError, match=r"'plto'.*'plot'.*train, plot, table"):
        commands.split(["plto"])


@pytest.fixture
def options(tmp_path):
    path = tmp_path / "options.yaml"
    path.write_text("lr: 0.1\nenc: {simple: {units: 5}}\n")
    return path


def test_options_of_an_agent_of_ones_own(options):
    command = parse(f"--configs size1m --agent_config {options} --agent.lr 1")
    config, sources = command.config, command.sources
    # The preset sets the one option that is there, too.
    assert config.agent == {"lr": 1.0, "enc.simple.units": 64}
    assert type(config.agent.lr) is float
    assert config.agent_config == str(options)
    assert list(sources) == list(config.flat)
    assert sources["agent.lr"] == "flag"
    assert sources["agent.enc.simple.units"] == "preset size1m"
    assert parse(f"--agent_config {options}").sources["agent.lr"] == str(options)
    assert len(command.notes) == 1
    assert "lacks" in command.notes[0] and "agent.dyn.rssm.deter" in command.notes[0]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("lr: [", "is no YAML (line "),
        ("lr: 1\nlr: 2", "is no YAML"),
        ("3", "does not hold options"),
        ("lr:", "NoneType"),
        ("seed: 3\njax: 1", "has jax, seed"),
        ("a: \x00", "is no YAML"),
    ],
)
def test_bad_options_of_an_agent(capsys, options, content, problem):
    options.write_text(content)
    assert problem in fails(capsys, f"--agent_config {options}")


def test_agent_module_that_fails(capsys, tmp_path, monkeypatch):
    (tmp_path / "failing_agent.py").write_text("raise ValueError('one\\ntwo')")
    monkeypatch.syspath_prepend(tmp_path)
    assert "(ValueError: one two)" in fails(capsys, "--agent_class failing_agent:Agent")
