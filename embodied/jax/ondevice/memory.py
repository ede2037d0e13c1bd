"""Whether replay and parameters of all seeds fit into the memory of a device."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import jax

from embodied.core.config import ConfigError
from embodied.core.space import Space
from embodied.jax import ring
from embodied.jax.memory import free_memory

GIGABYTE = 1e9


@dataclasses.dataclass(frozen=True)
class Need:
    """What the seeds of one device take.

    Attributes:
      shape: Sizes of the replay of a seed.
      step_bytes: Bytes of a stored step.
      param_bytes: Bytes of the state of the model of a seed.
      seeds: Seeds on the device.
    """

    shape: ring.Shape
    step_bytes: int
    param_bytes: int
    seeds: int

    @classmethod
    def of(
        cls, shape: ring.Shape, spaces: Mapping[str, Space], params: Mapping[str, Any], seeds: int
    ) -> "Need":
        """Work it out from spaces, and the shapes of the state of the model."""
        size = sum(math.prod(x.shape) * x.dtype.itemsize for x in params.values())
        return cls(shape, ring.step_bytes(spaces), size, seeds)

    @property
    def ring_bytes(self) -> int:
        """Bytes of the replay of a seed."""
        return self.shape.worlds * self.shape.rows * self.step_bytes

    @property
    def total(self) -> int:
        """Bytes of all seeds; while an update is made, there is a second state of the model."""
        return self.seeds * (self.ring_bytes + 2 * self.param_bytes)

    def line(self) -> str:
        """Say what the replay takes."""
        worlds, rows = self.shape.worlds, self.shape.rows
        count = f"{self.seeds} seed{'' if self.seeds == 1 else 's'}"
        return (
            f"Replay:   {self.step_bytes:,} bytes per step x {worlds} environments x {rows:,} "
            f"positions = {self.ring_bytes / GIGABYTE:.3g} GB per seed, for "
            f"{min(self.shape.capacity, worlds * rows):,} items at most; {count} per device with "
            f"the state of the agent: {self.total / GIGABYTE:.3g} GB"
        )

    def check(self, device: jax.Device) -> None:
        """Compare it with what a device has left.

        Raises:
          ConfigError: With the arithmetic, and what would fit.
        """
        free = free_memory(device)
        if free is None or self.total <= free:
            return
        spare = free // self.seeds - 2 * self.param_bytes
        worlds = self.shape.worlds
        fits = max(spare // self.step_bytes - worlds * (self.shape.window + 1), 0)
        raise ConfigError(
            f"Got replay.size={self.shape.capacity:,}: {worlds} environments x "
            f"{self.shape.rows:,} positions x {self.step_bytes:,} bytes per step = "
            f"{self.ring_bytes / GIGABYTE:.3g} GB per seed, with the state of the agent "
            f"{self.total / GIGABYTE:.3g} GB for {self.seeds} on a device, which has "
            f"{free / GIGABYTE:.3g} GB left; set --replay.size to at most {fits:,}, or take fewer "
            "seeds."
        )
