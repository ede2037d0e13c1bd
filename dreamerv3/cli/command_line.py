"""From the words of the command line to a checked config, before anything heavy is imported."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dreamerv3.cli import agents, checks, factories, help, run_folder
from dreamerv3.cli.limits import check_limits
from dreamerv3.cli.presets import Presets
from embodied.core.config import Config, ConfigError, Scalar, Value, convert
from embodied.core.flags import Flag, FlagError, Flags, split_flags
from embodied.core.suggest import closest, hint
from embodied.envs import registry
from embodied.envs.errors import EnvError

#: Flags that print something and exit; they take no value.
PRINTERS = ("help", "list_configs", "list_tasks", "print_config")

#: Flags that are no options.
FLAGS = ("configs", *PRINTERS)

#: Options of earlier versions of the algorithm's code and what they are called now.
RENAMED = {
    "actent": "agent.imag_loss.actent",
    "batch_length_eval": "report_length",
    "env.amount": "run.envs",
    "envs.amount": "run.envs",
    "imag_horizon": "agent.imag_length",
    "jax.logical_cpus": "jax.mock_devices",
    "jax.precision": "jax.compute_dtype",
    "model_opt.lr": "agent.opt.lr",
    "replay_length": "batch_length",
    "replay_online": "replay.online",
    "replay_size": "replay.size",
    "return_lambda": "agent.imag_loss.lam",
    "rssm.deter": "agent.dyn.rssm.deter",
    "run.debug": "run.parallel",
    "run.eval_every": "run.report_every",
    "run.num_envs": "run.envs",
    "run.num_envs_eval": "run.eval_envs",
    "slow_critic_fraction": "agent.slowvalue.rate",
}

#: Options of the public code that are not here, and why.
DROPPED = {
    "errfile": "an error of any process ends the others and is printed, without a file for it",
    "run.agent_process": "with --script parallel the agent always has a process of its own",
}

#: Sections whose options are the arguments of a constructor outside of this project.
OPEN_SECTIONS = ("env.custom.", "env.gymnasium.", "env.gym.")


@dataclasses.dataclass(frozen=True)
class Resolved:
    """A command line that was understood.

    Attributes:
      config: The resolved options.
      sources: Where the value of each option comes from: `default`, `preset NAME` or `flag`.
      notes: Sentences that the user should read.
    """

    config: Config
    sources: Mapping[str, str]
    notes: Sequence[str]


def resolve(argv: Sequence[str] | None = None) -> Config:
    """Return the config that a command line asks for, or print what it asks for and exit.

    Args:
      argv: Command line without the program's name; None for that of this process.

    Raises:
      SystemExit: With code 2 after a mistake, explained in one sentence on stderr; with code 0
        after `--help` and the other flags of `PRINTERS`.
    """
    try:
        asked, rest = split_printers(sys.argv[1:] if argv is None else argv)
        printers: dict[str, Callable[[], str]] = {
            "help": lambda: help.options(Presets.load()),
            "list_configs": lambda: help.presets(Presets.load()),
            "list_tasks": registry.listing,
            "print_config": lambda: help.resolved(resolved.config, resolved.sources),
        }
        if "print_config" in asked or not asked:
            resolved = parse(rest, dry="print_config" in asked)
            for note in resolved.notes:
                print(f"note: {note}", file=sys.stderr)
    except (ConfigError, EnvError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    for name in PRINTERS:
        if name in asked:
            print(printers[name]())
    if asked:
        raise SystemExit(0)
    return resolved.config


def split_printers(argv: Sequence[str]) -> tuple[set[str], list[str]]:
    """Separate the flags of `PRINTERS` from those that set options.

    Raises:
      FlagError: On one with a value.
    """
    asked: set[str] = set()
    rest: list[str] = []
    for flag in split_flags(["--help" if token == "-h" else token for token in argv]):
        if flag.name not in PRINTERS:
            rest += flag.tokens
        elif flag.values:
            raise FlagError(f"--{flag.name} takes no value, got '{flag.values[0]}'.")
        else:
            asked.add(flag.name)
    return asked, rest


def parse(argv: Sequence[str], dry: bool = False) -> Resolved:
    """Resolve and check a command line of presets and options.

    Args:
      argv: Command line without the program's name.
      dry: The config is only looked at, so that a preset's task need not be installed.

    Raises:
      ConfigError: On an unknown, renamed, contradictory or ill-typed preset or option.
      EnvError: On a task that does not exist or is not installed.
    """
    presets = Presets.load()
    flags = split_flags(argv)
    names = _preset_names([flag for flag in flags if flag.name == "configs"])
    flags = [flag for flag in flags if flag.name != "configs"]
    base, saved = presets.defaults, {}
    values, sources, notes = stack(presets, names)
    if _last(flags, "script") == "eval_only":
        flags, run = evaluated_run(flags)
        saved = run_folder.saved_options(run) if run else {}
        base, unknown = run_folder.adopt(base, saved, OPEN_SECTIONS)
        notes += [f"Option '{key}' of {run} does not exist any more." for key in unknown]
        saved = {key: value for key, value in saved.items() if key not in values}
        sources |= dict.fromkeys(saved.keys() & base.flat.keys(), f"{run}")
    if agent_file := _agent_file(flags):
        own = agents.read_options(agent_file, factories.given_options(base))
        base = agents.replace_options(base, own)
        sources |= {key: agent_file for key in own if key not in values}
    if dropped := [key for key in values if key not in base]:
        shown = ", ".join([*dropped[:3], *(["..."] if len(dropped) > 3 else [])])
        notes.append(f"This agent lacks {len(dropped)} options that presets set ({shown}).")
    config = base.update({key: value for key, value in values.items() if key not in dropped})
    for flag in flags:
        if flag.name in RENAMED:
            raise ConfigError(f"Option '{flag.name}' is now called '{RENAMED[flag.name]}'.")
        if flag.name in DROPPED:
            raise ConfigError(f"There is no option '{flag.name}' here: {DROPPED[flag.name]}.")
        if flag.name not in config and closest(flag.name, FLAGS):
            raise FlagError(f"Unknown option '{flag.name}'.{hint(flag.name, FLAGS)}")
    config = declare_arguments(config, flags)
    changed = Flags(config).assignments([token for flag in flags for token in flag.tokens])
    config = config.update(changed)
    sources |= dict.fromkeys(changed, "flag")
    config = config.update(agent_config=agent_file or config.agent_config)
    check_limits(config)  # Before what follows from the values.
    config = fill_in(config, sources, notes)
    config = checks.check_choices(config)
    checks.check(config)
    try:
        registry.check_task(config.task)
    except EnvError as error:
        if not dry or sources["task"] == "flag":
            raise
        notes.append(str(error))
    if config.agent_class != agents.DEFAULT and not config.random_agent:
        agents.load(config.agent_class)
    sources = {key: sources.get(key, "default") for key in config.flat}
    return Resolved(config, sources, notes)


def stack(
    presets: Presets, names: Sequence[str]
) -> tuple[dict[str, Value], dict[str, str], list[str]]:
    """Lay presets over each other, later ones on top.

    The size that the user names is kept when a task's preset that comes later has another size
    inside; of several named sizes the last one counts.

    Args:
      presets: The content of configs.yaml.
      names: Presets in the order of the command line.

    Returns:
      Changed values, the source of every option, and notes for the user.

    Raises:
      ConfigError: On an unknown preset, or two that choose a task.
    """
    values: dict[str, Value] = {}
    sources = dict.fromkeys(presets.defaults.flat, "default")
    notes: list[str] = []
    task = size = ""
    for name in dict.fromkeys(names):
        changes = presets.changes(name)
        sized = presets.changes(size) if size else {}
        replaced = {key for key in changes if key in sized and changes[key] != sized[key]}
        if "task" in changes:
            if task:
                raise ConfigError(
                    f"The presets '{task}' and '{name}' contradict each other, as both choose a "
                    "task; name one of them (and --task for another task)."
                )
            task = name
            if replaced:
                notes.append(f"'{name}' has another size inside; '{size}' is kept as it is named.")
            changes = {key: value for key, value in changes.items() if key not in sized}
        elif replaced:
            notes.append(f"'{name}' replaces values of '{size}', which is named before it.")
        size = name if name in presets.sizes else size
        values |= changes
        sources |= dict.fromkeys(changes, f"preset {name}")
    return values, sources, notes


def evaluated_run(flags: Sequence[Flag]) -> tuple[list[Flag], pathlib.Path | None]:
    """Find the run whose agent is evaluated, and where the results go.

    Returns:
      The flags, with `run.from_checkpoint` and `logdir` filled in, and the folder of the run; no
      folder for an agent that acts at random.

    Raises:
      ConfigError: If no run is named, or it has no checkpoint.
    """
    source, logdir = _last(flags, "run.from_checkpoint"), _last(flags, "logdir")
    if not source and _last(flags, "random_agent").lower() in ("true", "yes", "on", "1"):
        return list(flags), None
    source = source or logdir
    if not source:
        raise ConfigError(
            "The script eval_only needs an agent: set --run.from_checkpoint to the folder of a "
            "run, its 'ckpt' folder or one checkpoint."
        )
    run = run_folder.find_run(source)
    if source == logdir or not logdir:
        logdir = str(run / "eval" / "{timestamp}")
    kept = [flag for flag in flags if flag.name not in ("run.from_checkpoint", "logdir")]
    source = os.path.abspath(os.path.expanduser(source))
    tokens = [f"--run.from_checkpoint={source}", f"--logdir={logdir}"]
    return [*kept, *split_flags(tokens)], run


def fill_in(config: Config, sources: dict[str, str], notes: list[str]) -> Config:
    """Complete the options that follow from others: the length of reports, and the logdir.

    Args:
      config: The options so far.
      sources: Where their values come from; changed in place.
      notes: Sentences for the user; changed in place.
    """
    length = config.consec_train * config.batch_length // config.consec_report
    if config.report_length > length > 0 and sources["report_length"] != "flag":
        config = config.update(report_length=length)
        sources["report_length"] = "limit by batch_length"
        notes.append(f"report_length is cut to {length}, all that a stored sequence has.")
    if not config.logdir:
        raise ConfigError("Option 'logdir' is empty, expected the folder of the run.")
    logdir = expand(config.logdir)
    if config.replica and config.jax.coordinator_address:
        logdir = os.path.join(logdir, f"replica{config.replica}")
    return config.update(logdir=logdir)


def declare_arguments(config: Config, flags: Sequence[Flag]) -> Config:
    """Add the options of `OPEN_SECTIONS` that flags name, typed by what their value looks like.

    `--env.custom.size 3` becomes an option with an integer, which is then set like any other.
    """
    added: dict[str, Any] = {}
    for flag in flags:
        if flag.name.startswith(OPEN_SECTIONS) and flag.name not in config and flag.values:
            values = tuple(map(_guess, flag.values))
            added[flag.name] = values if len(values) > 1 else values[0]
    return Config({**config.flat, **added}) if added else config


def expand(logdir: str) -> str:
    """Fill in `{timestamp}` and the home folder, and make the path absolute."""
    now = datetime.datetime.now().strftime("%Y%m%dT%H%M%SF%f")
    return os.path.abspath(os.path.expanduser(logdir.replace("{timestamp}", now)))


def _last(flags: Sequence[Flag], name: str) -> str:
    """The last value that flags give to an option as a text, empty for none."""
    values = [flag.values[-1] for flag in flags if flag.name == name and flag.values]
    return values[-1] if values else ""


def _agent_file(flags: Sequence[Flag]) -> str:
    """The absolute path of the file that flags name for the options of the agent, if any."""
    name = _last(flags, "agent_config")
    return os.path.abspath(os.path.expanduser(name)) if name else ""


def _preset_names(flags: Sequence[Flag]) -> list[str]:
    names: list[str] = []
    for flag in flags:
        given = [name for value in flag.values for name in value.split(",") if name]
        if not given:
            raise FlagError("--configs has no value; write --configs NAME, see --list_configs.")
        names += given
    return names


def _guess(text: str) -> Scalar:
    """Read a value whose type nobody declared."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    default: Scalar
    for default in (0, 0.0):
        with contextlib.suppress(ConfigError):
            return convert("", text, default)  # type: ignore[return-value]
    return text
