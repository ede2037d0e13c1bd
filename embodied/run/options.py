"""What a run script is told: the options of `run` in `configs.yaml`, and those that it shares."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class EvalOptions:
    """How episodes of an evaluation are run.

    Attributes:
      mode: `sample`, or `deterministic` for the modes of latents and actions.
      max_length: Steps after which an episode is cut off; 0 for never.
      video: Whether to write a video of every episode of the first environment.
    """

    mode: str = "sample"
    max_length: int = 100_000
    video: bool = False


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """Options of a run script. `docs/config.md` says what each means; defaults are those of there.

    `batch_size` is that of this process, where several of them train together.
    """

    logdir: str
    seed: int = 0
    steps: float = 1e10
    duration: float = 0
    train_ratio: float = 32.0
    batch_size: int = 16
    batch_length: int = 64
    consec_report: int = 1
    log_every: float = 120
    report_every: float = 300
    save_every: float = 900
    keep: int = 2
    keep_every: int = 0
    keep_best: bool = False
    overlap: int = 0
    envs: int = 16
    parallel: str | bool = "auto"
    env_timeout: float = 600
    env_restarts: int = 0
    picture_every: int = 10
    eval_envs: int = 4
    eval_eps: int = 1
    report_batches: int = 1
    from_checkpoint: str = ""
    from_checkpoint_regex: str = ".*"
    from_replay: str = ""
    deterministic: bool = True
    episode_timeout: float = 180
    actor_addr: str = "localhost:{auto}"
    replay_addr: str = "localhost:{auto}"
    logger_addr: str = "localhost:{auto}"
    actor_batch: int = -1
    actor_threads: int = 1
    remote_replay: bool = False
    remote_envs: bool = False
    usage: Mapping[str, bool] = dataclasses.field(
        default_factory=lambda: {
            "psutil": True,
            "nvsmi": True,
            "gputil": False,
            "malloc": False,
            "gc": False,
        }
    )
    eval: EvalOptions = EvalOptions()
    replica: int = 0
    replicas: int = 1
    coordinator_address: str = ""
    clock_addr: str = ""
    clock_port: str = ""
    ipv6: bool = False
    fps: int = 15
    timer: bool = True
    replay_strict: bool = False

    @classmethod
    def pick(cls, *sources: Mapping[str, Any], **values: Any) -> RunOptions:
        """Take the options from mappings that hold others as well; later ones win.

        Args:
          *sources: Values by name, for example the sections of a config.
          **values: Further options.

        Raises:
          TypeError: If one of `values` does not exist.
        """
        names = {field.name for field in dataclasses.fields(cls)}
        picked = {k: v for source in sources for k, v in source.items() if k in names} | values
        if isinstance(picked.get("eval"), Mapping):
            picked["eval"] = EvalOptions(**picked["eval"])
        return cls(**picked)

    @property
    def batch_steps(self) -> int:
        """Trained steps per update; so many items the replay has to have before the first one."""
        return self.batch_size * self.batch_length

    @property
    def updates_per_step(self) -> float:
        """Updates that a step of the agent pays for."""
        return self.train_ratio / self.batch_steps

    @property
    def flat(self) -> dict[str, Any]:
        """The values by dotted name, as a record of how a run was made."""
        flat: dict[str, Any] = {}
        for key, value in dataclasses.asdict(self).items():
            nested = value if isinstance(value, Mapping) else {"": value}
            flat |= {f"{key}.{name}".rstrip("."): item for name, item in nested.items()}
        return flat
