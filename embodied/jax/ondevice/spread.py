"""Many seeds at once: mapped over on a device, and spread over several devices.

What the seeds share has no axis of seeds, as both sides of every branch would be computed else.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from embodied.core.config import ConfigError

SEEDS = "seeds"
DEVICES = "devices"


class Spread:
    """Places the states of S seeds on devices, and lets functions of one seed run for all.

    Attributes:
      local: Seeds per device.
      axis: Name of the axis of seeds inside of a function, None for a single seed per device,
        which is not mapped over: batched operations would be slower.
    """

    def __init__(self, seeds: int, devices: list[jax.Device]) -> None:
        """Spread seeds evenly.

        Raises:
          ConfigError: The devices cannot share them evenly.
        """
        if seeds % len(devices):
            raise ConfigError(
                f"Got ondevice.seeds={seeds} for {len(devices)} jax.train_devices, expected a "
                "multiple of the devices."
            )
        self.local = seeds // len(devices)
        self.axis = SEEDS if self.local > 1 else None
        self._mesh = Mesh(np.array(devices), (DEVICES,))
        self.shared = NamedSharding(self._mesh, PartitionSpec())
        self.split = NamedSharding(self._mesh, PartitionSpec(DEVICES))

    def __call__(self, fn: Callable[..., Any], returns_shared: bool) -> Callable[..., Any]:
        """Let a function run for all seeds.

        Args:
          fn: Function of what the seeds share, one tuple, and of what one of them has.
          returns_shared: Whether it returns a pair, of which the seeds share the first.

        Returns:
          A function of what they share and of what they have [S, ...].
        """
        outputs: Any = (None, 0) if returns_shared else 0
        mapped = jax.vmap(fn, (None, 0), outputs, axis_name=SEEDS)

        def single(shared: Any, states: Any) -> Any:
            out = fn(shared, jax.tree.map(lambda x: x[0], states))
            first, own = out if returns_shared else (None, out)
            own = jax.tree.map(lambda x: x[None], own)
            return (first, own) if returns_shared else own

        local = mapped if self.local > 1 else single
        if self._mesh.size == 1:
            return local
        copies, split = PartitionSpec(), PartitionSpec(DEVICES)
        specs = (copies, split) if returns_shared else split
        return jax.shard_map(
            local, mesh=self._mesh, in_specs=(copies, split), out_specs=specs, check_vma=False
        )
