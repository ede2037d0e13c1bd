"""What a config needs besides right types, checked before anything heavy is imported.

The values that an option may take are in `CHOICES`; `--help` and docs/config.md print them from
here.
"""

from __future__ import annotations

import contextlib
import math
import pathlib
from collections.abc import Mapping, Sequence

from dreamerv3.cli.scripts import SCRIPTS
from dreamerv3.cli.writers import MAKERS
from embodied.core.config import Config, ConfigError, Value, convert, format_value
from embodied.core.suggest import hint
from embodied.core.writers.pictures import missing_video_package
from embodied.core.writers.services import missing_package

_NORMS = ("rms", "layer", "none")
_ACTIVATIONS = (
    "none", "silu", "swish", "gelu", "relu", "relu2", "leaky_relu", "elu", "selu", "tanh",
    "sigmoid", "softplus", "mish", "swiglu",
)  # fmt: skip
_NUMBERS = ("mse", "symlog_mse", "huber", "symexp_twohot", "bounded_normal", "normal_logstd")
_INITIALIZERS = (
    *(f"{dist}{fan}" for dist in ("trunc_normal", "normal", "uniform")
      for fan in ("", "_in", "_out", "_avg", "_none")),
    "zeros", "ones",
)  # fmt: skip
_NORMALIZERS = ("perc", "meanstd", "none")
_RESIZE = ("pillow", "opencv")
_ATARI_ACTIONS = ("all", "needed")
_LIVES = ("unused", "discount", "reset")
_POOLING = ("max", "mean")

#: Values that an option may have, or entries if it is a list. Others may have any of their type.
CHOICES: Mapping[str, Sequence[str]] = {
    "script": SCRIPTS,
    "logger.outputs": tuple(MAKERS),
    "env.atari.actions": _ATARI_ACTIONS,
    "env.atari.lives": _LIVES,
    "env.atari.aggregate": _POOLING,
    "env.atari.resize": _RESIZE,
    "env.atari100k.actions": _ATARI_ACTIONS,
    "env.atari100k.lives": _LIVES,
    "env.atari100k.aggregate": _POOLING,
    "env.atari100k.resize": _RESIZE,
    "env.procgen.resize": _RESIZE,
    "env.procgen.mode": ("easy", "hard", "extreme", "memory", "exploration"),
    "env.dmlab.actions": ("popart", "impala"),
    "env.dmlab.renderer": ("software", "hardware"),
    "env.navix.view": (
        "symbolic",
        "symbolic_first_person",
        "categorical",
        "rgb",
        "rgb_first_person",
    ),
    "replay.priosignal": ("model",),
    "run.parallel": ("auto", "true", "false"),
    "run.nonfinite": ("stop", "skip"),
    "eval.mode": ("sample", "deterministic"),
    "jax.platform": ("auto", "cpu", "cuda", "gpu", "tpu"),
    "jax.compute_dtype": ("auto", "bfloat16", "float16", "float32"),
    "agent.opt.schedule": ("const", "linear", "cosine"),
    "agent.sampling": ("sample", "mode"),
    "agent.norm_dtype": ("float32", "compute"),
    "agent.imag_parts": ("auto", "steps", "whole"),
    "agent.imag_start": ("model", "replay"),
    "agent.dyn.typ": ("rssm",),
    "agent.enc.typ": ("simple",),
    "agent.dec.typ": ("simple",),
    "agent.dyn.rssm.norm": _NORMS,
    "agent.enc.simple.norm": _NORMS,
    "agent.dec.simple.norm": _NORMS,
    "agent.rewhead.norm": _NORMS,
    "agent.conhead.norm": _NORMS,
    "agent.policy.norm": _NORMS,
    "agent.value.norm": _NORMS,
    "agent.dyn.rssm.act": _ACTIVATIONS,
    "agent.enc.simple.act": _ACTIVATIONS,
    "agent.dec.simple.act": _ACTIVATIONS,
    "agent.rewhead.act": _ACTIVATIONS,
    "agent.conhead.act": _ACTIVATIONS,
    "agent.policy.act": _ACTIVATIONS,
    "agent.value.act": _ACTIVATIONS,
    "agent.dyn.rssm.winit": _INITIALIZERS,
    "agent.enc.simple.winit": _INITIALIZERS,
    "agent.dec.simple.winit": _INITIALIZERS,
    "agent.rewhead.winit": _INITIALIZERS,
    "agent.conhead.winit": _INITIALIZERS,
    "agent.policy.winit": _INITIALIZERS,
    "agent.value.winit": _INITIALIZERS,
    "agent.rewhead.output": _NUMBERS,
    "agent.conhead.output": ("binary",),
    "agent.value.output": _NUMBERS,
    "agent.policy_dist_disc": ("categorical", "onehot"),
    "agent.policy_dist_cont": ("bounded_normal", "normal_logstd"),
    "agent.retnorm.impl": _NORMALIZERS,
    "agent.valnorm.impl": _NORMALIZERS,
    "agent.advnorm.impl": _NORMALIZERS,
}

#: What options have to be in the script ondevice.
ONDEVICE_ONLY: Mapping[str, Value] = {
    "replicas": 1,
    "consec_train": 1,
    "consec_report": 1,
    "replay.fracs.uniform": 1.0,
    "run.overlap": 0,
    "run.env_restarts": 0,
    "run.from_replay": "",
}


def describe_choices(key: str) -> str:
    """List the values that an option may have in a sentence, empty if they are not limited."""
    start = "Any" if key == "logger.outputs" else "One"
    return f"{start} of: {', '.join(CHOICES[key])}." if key in CHOICES else ""


def check_choices(config: Config) -> Config:
    """Check the options in `CHOICES`, and write their values the same way.

    Capitals do not matter, and where `true` and `false` are choices, the other spellings of
    booleans are too. The options of an agent that come from a file of the user's are its own.

    Raises:
      ConfigError: Naming the first wrong option, its value and those allowed.
    """
    changes: dict[str, Value] = {}
    for key, allowed in CHOICES.items():
        if key.startswith("agent.") and (config.agent_config or key not in config):
            continue
        value = config[key]
        if isinstance(value, tuple):
            changes[key] = tuple(_choose(key, str(entry), allowed) for entry in value)
        else:
            changes[key] = _choose(key, str(value), allowed)
    return config.update(changes)


def check(config: Config) -> None:
    """Check values whose type is right but that cannot work.

    Raises:
      ConfigError: Naming the option, its value and what is possible.
    """
    stored = config.consec_train * config.batch_length
    if config.consec_report * config.report_length > stored:
        raise ConfigError(
            f"Option 'report_length' is {config.report_length}, but a stored sequence has "
            f"{stored} steps (consec_train * batch_length); set it to at most "
            f"{stored // config.consec_report}."
        )
    if not 0 <= config.replica < config.replicas:
        raise ConfigError(
            f"Option 'replica' has to be below 'replicas' ({config.replicas}), "
            f"got {config.replica}."
        )
    for output in config.logger.outputs:
        if problem := missing_package(output):
            raise ConfigError(problem)
    check_replay(config)
    check_script(config)
    check_devices(config)
    if not config.agent_config and config.get("agent.repl_loss.slowtar"):
        raise ConfigError(
            "Option 'agent.repl_loss.slowtar' is True, but the critic loss on replayed steps takes "
            "its targets from imagined returns, so that nothing reads it; leave it False."
        )


def check_script(config: Config) -> None:
    """Check the options that a script needs.

    Raises:
      ConfigError: Naming the option and what is possible.
    """
    if config.script == "collect" and not (config.random_agent or config.run.from_checkpoint):
        raise ConfigError(
            "The script collect needs an agent: set --run.from_checkpoint to the folder of a run, "
            "or --random_agent True."
        )
    # Found now, rather than when the first episode is over.
    if config.script == "eval_only" and config.eval.video and (problem := missing_video_package()):
        raise ConfigError(f"Option 'eval.video' is True. {problem}")
    if config.jax.coordinator_address or (config.replicas > 1 and "train" in config.script):
        check_replicas(config)
    if config.script.startswith("parallel"):
        check_parallel(config)
    check_ondevice(config)
    if config.script == "offline":
        folder = pathlib.Path(config.run.from_replay).expanduser()
        if not config.run.from_replay or not folder.is_dir():
            raise ConfigError(
                "The script offline needs stored steps: set --run.from_replay to the folder of a "
                f"replay or of a run that has one; got '{config.run.from_replay}'."
            )
        if config.run.train_ratio <= 0 or config.random_agent:
            raise ConfigError(
                "The script offline only learns, so run.train_ratio has to be positive (got "
                f"{config.run.train_ratio:g}) and random_agent False (got {config.random_agent})."
            )


def check_replicas(config: Config) -> None:
    """Check the options of several processes that train together.

    Raises:
      ConfigError: Naming the option, its value and what is possible.
    """
    host, _, port = config.jax.coordinator_address.rpartition(":")
    if not host or not port.isdigit():
        raise ConfigError(
            f"Option 'jax.coordinator_address' is '{config.jax.coordinator_address}', but "
            f"{config.replicas} replicas need the address host:port of the first of them."
        )
    if config.script not in ("train", "train_eval", "offline"):
        raise ConfigError(f"The script {config.script} does not run on several hosts together.")
    if config.run.keep_best:
        raise ConfigError(
            "Option 'run.keep_best' is True, but processes that train together each have scores of "
            "their own; leave it False, and keep checkpoints with run.keep_every."
        )
    if config.batch_size % config.replicas:
        raise ConfigError(
            f"Option 'batch_size' is {config.batch_size}, which cannot be split evenly over "
            f"{config.replicas} replicas; change one of these numbers."
        )


def check_parallel(config: Config) -> None:
    """Check the options of the parallel scripts.

    Raises:
      ConfigError: Naming the option, its value and what is possible.
    """
    if config.run.train_ratio < 0:
        raise ConfigError(
            f"Option 'run.train_ratio' is {config.run.train_ratio:g}; in parallel runs it has to "
            "be 0 or more."
        )
    if config.script == "parallel" and config.replicas > 1:
        raise ConfigError(
            f"Option 'replicas' is {config.replicas}, but the script parallel has one agent; "
            "replicas share the environments of the script parallel_envs."
        )
    elsewhere = {
        "actor_addr": config.run.remote_envs or config.script in ("parallel_env", "parallel_envs"),
        "replay_addr": config.run.remote_replay or config.script == "parallel_replay",
    }
    for name in ("actor_addr", "replay_addr", "logger_addr"):
        value = config.run[name]
        host, _, port = value.rpartition(":")
        if not host or not (port.isdigit() or port == "{auto}"):
            raise ConfigError(f"Option 'run.{name}' is '{value}', expected host:port.")
        if elsewhere.get(name) and port == "{auto}":
            raise ConfigError(
                f"Option 'run.{name}' is '{value}', but parts of the run that are started "
                "elsewhere have to know the port; write a number."
            )


def check_ondevice(config: Config) -> None:
    """Check the options that the script ondevice cannot follow, and that only it follows.

    Raises:
      ConfigError: Naming the option, its value and what is possible.
    """
    if config.script != "ondevice":
        if config.ondevice.seeds != 1:
            raise ConfigError(
                f"Option 'ondevice.seeds' is {config.ondevice.seeds}, but the script "
                f"{config.script} trains one seed; take --script ondevice, or leave it at 1."
            )
        return
    for key, only in ONDEVICE_ONLY.items():
        if config[key] != only:
            raise ConfigError(
                f"Option '{key}' is {format_value(config[key])}, but the script ondevice can only "
                f"do {format_value(only) or 'without'}; take --script train."
            )
    if config.ondevice.seeds % len(config.jax.train_devices):
        raise ConfigError(
            f"Option 'ondevice.seeds' is {config.ondevice.seeds}, which "
            f"{len(config.jax.train_devices)} 'jax.train_devices' cannot share evenly; expected a "
            "multiple."
        )


def check_devices(config: Config) -> None:
    """Check that batches can be split over the devices.

    Raises:
      ConfigError: Naming the option, its value and the number of devices.
    """
    options = config.jax
    for key in ("train_devices", "policy_devices"):
        devices = options[key]
        if not devices or len(set(devices)) < len(devices):
            raise ConfigError(
                f"Option 'jax.{key}' is {format_value(devices)}, expected the numbers of one or "
                "more devices, each of them once."
            )
    grid = options.train_mesh
    count = len(options.train_devices) * (config.replicas if options.coordinator_address else 1)
    known = math.prod(size for size in grid if size > 0)
    free = sum(size == -1 for size in grid)
    fits = count % known == 0 if free else count == known
    if len(grid) != 3 or free > 1 or 0 in grid or not fits:
        raise ConfigError(
            f"Option 'jax.train_mesh' is {format_value(grid)}, but there are {count} "
            "'jax.train_devices'; it has three sizes, at most one of them -1, with that product."
        )
    sizes = [count // known if size == -1 else size for size in grid]
    if len(options.train_devices) % sizes[2]:
        raise ConfigError(
            f"Option 'jax.train_mesh' is {format_value(grid)}, which splits matrix products over "
            f"{sizes[2]} devices, but these have to be of one process, and each has "
            f"{len(options.train_devices)} 'jax.train_devices'; make the last size a divisor of "
            "that."
        )
    if config.script == "ondevice":  # Whose devices share seeds.
        return
    parts = math.prod(sizes[:2])
    splits = {"batch_size": parts}
    if config.script not in ("eval_only", "offline"):
        splits["run.envs"] = len(options.policy_devices)
    for key, devices in splits.items():
        if config[key] % devices:
            raise ConfigError(
                f"Option '{key}' is {config[key]}, which cannot be split evenly over {devices} "
                "devices; change one of these numbers."
            )


def check_replay(config: Config) -> None:
    """Check the options of the replay against each other and the batches.

    Raises:
      ConfigError: Naming the option, its value and what is possible.
    """
    length = config.consec_train * config.batch_length + config.replay_context
    if config.batch_size * length > config.replay.size:
        raise ConfigError(
            f"Option 'replay.size' is {format_value(config.replay.size)}, but a batch alone has "
            f"{config.batch_size * length} steps (batch_size * sequence length of {length})."
        )
    fractions = config.replay.fracs.flat.values()
    if min(fractions) < 0 or abs(sum(fractions) - 1) > 1e-6:
        raise ConfigError(
            "The options 'replay.fracs.*' have to be positive and add up to 1, got "
            + ", ".join(map(str, fractions))
            + "."
        )
    if config.jax.compute_dtype == "float16" and config.replay.fracs.priority:
        raise ConfigError(
            f"Option 'replay.fracs.priority' is {config.replay.fracs.priority:g}, but with "
            "'jax.compute_dtype' float16 priorities could overflow; take bfloat16 or float32, or "
            "set it to 0."
        )
    try:
        float(config.replay.prio.initial)
    except ValueError:
        raise ConfigError(
            f"Option 'replay.prio.initial' takes a number or inf, got "
            f"'{config.replay.prio.initial}'."
        ) from None


def _choose(key: str, value: str, allowed: Sequence[str]) -> str:
    """Find the allowed value that was meant."""
    known = {name.lower(): name for name in allowed}
    if value.lower() not in known and {"true", "false"} <= known.keys():
        with contextlib.suppress(ConfigError):
            value = str(convert(key, value, True))
    if value.lower() not in known:
        raise ConfigError(
            f"Option '{key}' cannot be '{value}'; it is one of {', '.join(allowed)}."
            + hint(value, allowed)
        )
    return known[value.lower()]
