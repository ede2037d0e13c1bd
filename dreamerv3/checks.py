"""What a config needs besides right types, checked before anything heavy is imported."""

from __future__ import annotations

from embodied.core.config import Config, ConfigError, format_value
from embodied.core.outputs.packages import missing_package

#: Smallest values of options for which smaller ones make no sense.
MINIMUM = {
    "batch_size": 1,
    "batch_length": 1,
    "report_length": 1,
    "consec_train": 1,
    "consec_report": 1,
    "replay_context": 0,
    "replicas": 1,
    "replay.size": 1,
    "replay.chunksize": 1,
    "run.steps": 0,
    "run.envs": 1,
    "run.eval_envs": 1,
}


def check(config: Config) -> None:
    """Check values whose type is right but that cannot work.

    Raises:
      ConfigError: Naming the option, its value and what is possible.
    """
    for key, minimum in MINIMUM.items():
        if config[key] < minimum:
            raise ConfigError(f"Option '{key}' has to be at least {minimum}, got {config[key]}.")
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
    try:
        float(config.replay.prio.initial)
    except ValueError:
        raise ConfigError(
            f"Option 'replay.prio.initial' takes a number or inf, got "
            f"'{config.replay.prio.initial}'."
        ) from None
