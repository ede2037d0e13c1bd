"""The state of a program that trains on devices: what all seeds share, and what each has."""

from typing import Any, NamedTuple

import numpy as np

from embodied.jax.compiled import Use, random_key

#: What a seed draws random numbers for. Each use has a key, from which those of the single draws
#: follow by counters, so that the lengths of chunks make no difference.
USES = {
    "worlds": Use.WORLDS,
    "policy": Use.POLICY,
    "replay": Use.REPLAY,
    "train": Use.TRAIN,
    "report": Use.REPORT,
    "eval": Use.EVAL,
}


class Position(NamedTuple):
    """What all seeds share, int32 [].

    Attributes:
      n: Iterations so far, which is also the position that is written next.
      popped: Fresh windows that were taken or overwritten.
      updates: Updates so far.
    """

    n: Any
    popped: Any
    updates: Any


class SeedState(NamedTuple):
    """All that one seed has.

    Attributes:
      params: State of the model by path.
      ring: Stored steps, [N, L, ...] by key.
      worlds: States of the environments, [N, ...].
      carry: That of the policy.
      action: What the environments are sent next, [N, ...] by key.
      reset: Which of them are reset next, bool [N].
      episodes: Statistics of the unfinished episodes, [N].
      keys: Random keys by use, uint32 [2].
    """

    params: Any
    ring: Any
    worlds: Any
    carry: Any
    action: Any
    reset: Any
    episodes: Any
    keys: Any

    @property
    def rest(self) -> "SeedState":
        """What a checkpoint holds besides parameters and stored steps."""
        return self._replace(params=None, ring=None, keys=None)


def seed_keys(seed: int) -> dict[str, np.ndarray]:
    """Random keys of a seed by use."""
    return {name: random_key(seed, use) for name, use in USES.items()}
