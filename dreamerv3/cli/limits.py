"""The range of every number among the options, and of the texts that are patterns."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from embodied.core.config import Config, ConfigError, Value, format_value

_INF = math.inf
#: Sizes beyond it are mistakes that would end in the middle of compiling.
_SIZE = 2**20

#: Patterns of whole names, smallest and largest value; for lists, those of every entry. The first
#: pattern that fits counts.
LIMITS: tuple[tuple[str, float, float], ...] = (
    (r"batch_size|batch_length|report_length|consec_train|consec_report|replicas", 1, _INF),
    (r"seed", 0, 2**31 - 1),
    (r"replica|replay_context", 0, _INF),
    (r"logger\.fps", 1, 1000),
    (r"env\..*\.(size|repeat|pooling|length|view|vocab)", 1, _INF),
    (r"env\..*\.camera", -1, _INF),
    (r"env\..*\.(noops|levels|start|log_image_every|break_speed)", 0, _INF),
    (r"ondevice\.(seeds|chunk)", 1, _SIZE),
    (r"replay\.size", 1, _INF),
    (r"replay\.(chunksize|prefetch)", 1, _SIZE),
    (r"replay\.prio\.maxfrac|replay\.fracs\..*", 0, 1),
    (r"replay\.(prio\.exponent|recexp)", 0, _INF),
    (r"run\.(steps|duration|keep_every|overlap|env_timeout|env_restarts)", 0, _INF),
    (r"run\.(env_restart_wait|picture_every|eval_eps|episode_timeout)", 0, _INF),
    (r"run\.(train_ratio|log_every|report_every|save_every)", -_INF, _INF),
    (r"run\.(envs|eval_envs|actor_threads)", 1, _SIZE),
    (r"run\.(keep|report_batches)", 1, _INF),
    (r"run\.actor_batch", -1, _INF),
    (r"eval\.max_length", 0, _INF),
    (r"jax\.(policy_devices|train_devices|expect_devices)", 0, _INF),
    (r"jax\.mock_devices", 0, 1024),
    (r"jax\.train_mesh", -1, _INF),
    (r"agent\..*\.(beta1|beta2|unimix|lam|rate)", 0, 1),
    (r"agent\..*\.(perclo|perchi)", 0, 100),
    (r"agent\..*\.(deter|hidden|stoch|classes|blocks|depth|mults|units|kernel)", 1, _SIZE),
    (r"agent\..*\.bins", 2, _SIZE),
    (r"agent\..*\.(\w*layers|bspace)", 0, _SIZE),
    (r"agent\.(imag_length|horizon|slowvalue\.every)", 1, _SIZE),
    (r"agent\.(loss_scales|opt|imag_loss|repl_loss)\..*|agent\.imag_last", 0, _INF),
    (r"agent\..*\.(outscale|vec_outscale|symlog_tol|free_nats|minstd|maxstd|limit)", 0, _INF),
)

#: Options that are regular expressions.
PATTERNS = ("logger.filter", "run.from_checkpoint_regex")


def check_limits(config: Config) -> None:
    """Check every number and pattern. The options of an agent's own file are its own.

    Raises:
      ConfigError: Naming the option, its value and what is possible.
    """
    for key, value in config.flat.items():
        if key.startswith("agent.") and config.agent_config:
            continue
        low, high = limits(key)
        numbers = list(_numbers(value))
        if not all(low <= number <= high and math.isfinite(number) for number in numbers):
            raise ConfigError(
                f"Option '{key}' has to be {_bound(numbers, low, high)}, got {format_value(value)}."
            )
    for key in PATTERNS:
        try:
            re.compile(config[key])
        except re.error as error:
            raise ConfigError(
                f"Option '{key}' is '{config[key]}', expected a regular expression: {error}."
            ) from None


def limits(key: str) -> tuple[float, float]:
    """Smallest and largest value of an option; none for one that has no entry in `LIMITS`."""
    for pattern, low, high in LIMITS:
        if re.fullmatch(pattern, key):
            return low, high
    return -_INF, _INF


def _numbers(value: Value) -> Iterator[float]:
    for entry in value if isinstance(value, tuple) else (value,):
        if not isinstance(entry, bool | str):
            yield entry


def _bound(numbers: Sequence[float], low: float, high: float) -> str:
    """What numbers have to be that are not all in a range."""
    if any(number < low for number in numbers):
        return f"at least {low}"
    return f"at most {high:,}" if high < _INF else "a finite number"
