"""How batches and parameters are spread over devices, and how results come back from them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import (
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
)

from embodied.core.config import Config
from embodied.jax.platform import PlatformError

#: Axes of the mesh: copies of the model that share a batch, parts of the parameters that are only
#: put together where they are used, and parts of the matrix products themselves.
AXES = ("d", "f", "t")

#: A pattern that is searched in the path of a parameter, and the axes of its last dimensions.
Rule = tuple[str, tuple[str | None, ...]]

#: Kernels [..., in, out] are split; biases, scales and counters are small and copied.
DEFAULT_RULES: tuple[Rule, ...] = ((r"/kernel$", ("f", "t")),)


class DeviceMesh:
    """Devices in a grid, and how arrays lie on them.

    Attributes:
      devices: The devices, in the order of the grid.
      rows: Layout of arrays whose first dimension is the batch.
      replicated: Layout of arrays that every device holds in full.
      groups: Number of parts that a batch is split into.
      tensor_parts: Number of parts that matrix products are split into.
    """

    def __init__(
        self, devices: Sequence[jax.Device], shape: Sequence[int] = (-1, 1, 1), option: str = "mesh"
    ) -> None:
        """Arrange devices.

        Args:
          devices: The devices to use.
          shape: Devices along the axes `d`, `f` and `t`; -1 in one place takes the rest.
          option: Name of the option that holds the shape, for messages.

        Raises:
          PlatformError: The devices do not fill the grid.
        """
        grid = _grid(len(devices), shape, option)
        self.devices = list(devices)
        self.groups, self.tensor_parts = grid[0] * grid[1], grid[2]
        self.rows: Sharding
        self.replicated: Sharding
        if len(devices) == 1:
            self._mesh = None
            self.rows = self.replicated = SingleDeviceSharding(devices[0])
            return
        kinds = (AxisType.Auto,) * len(AXES)
        self._mesh = Mesh(np.array(devices).reshape(grid), AXES, axis_types=kinds)
        self.rows = NamedSharding(self._mesh, PartitionSpec(("d", "f")))
        self.replicated = NamedSharding(self._mesh, PartitionSpec())

    def check_rows(self, rows: int, option: str) -> None:
        """Check that a batch can be split evenly.

        Raises:
          PlatformError: Naming the number of rows and that of the devices.
        """
        if rows % self.groups:
            raise PlatformError(
                f"Got {option}={rows} on {len(self.devices)} devices, which split it into "
                f"{self.groups} parts; expected a multiple of {self.groups}, or fewer devices."
            )

    def put_rows(self, tree: Any) -> Any:
        """Place a batch on the devices; each process gives its own part of it."""
        if jax.process_count() == 1:
            return jax.device_put(tree, self.rows)
        return jax.tree.map(
            lambda x: jax.make_array_from_process_local_data(self.rows, np.asarray(x)), tree
        )

    def gather(self, tree: Any) -> Any:
        """Make arrays whole on every device, where processes have parts of them."""
        if all(x.is_fully_addressable or x.is_fully_replicated for x in jax.tree.leaves(tree)):
            return tree
        return jax.jit(lambda tree: tree, out_shardings=self.replicated)(tree)

    def rows_or_copies(self, rows: int) -> Sharding:
        """Layout of a batch of any size: split where that is possible, else copied."""
        return self.replicated if rows % self.groups else self.rows

    def params(
        self, shapes: Mapping[str, Any], rules: Sequence[Rule] = DEFAULT_RULES
    ) -> dict[str, Sharding]:
        """Layout of each parameter.

        The first rule counts whose pattern is found in the path. Its axes are those of the last
        dimensions. A dimension that an axis cannot divide is not split.

        Args:
          shapes: Anything with a shape, by path.
          rules: Patterns and axes; what none of them matches is copied to every device.
        """
        return {path: self._param(path, value.shape, rules) for path, value in shapes.items()}

    def _param(self, path: str, shape: tuple[int, ...], rules: Sequence[Rule]) -> Sharding:
        if self._mesh is None:
            return self.replicated
        axes = next((axes for pattern, axes in rules if re.search(pattern, path)), ())
        axes = (None,) * (len(shape) - len(axes)) + tuple(axes[max(0, len(axes) - len(shape)) :])
        spec = [
            axis if axis and size % self._mesh.shape[axis] == 0 else None
            for axis, size in zip(axes, shape, strict=True)
        ]
        return NamedSharding(self._mesh, PartitionSpec(*spec))


def training_mesh(platform: str, options: Config) -> DeviceMesh:
    """Arrange the devices that learn, which are those of all processes.

    Args:
      platform: Name of the platform.
      options: The section `jax` of the configuration.

    Raises:
      PlatformError: The devices are not there, do not fill the grid, or those that share matrix
        products are of several processes.
    """
    devices = [
        device
        for process in range(jax.process_count())
        for device in _pick_devices(platform, options, "train_devices", process)
    ]
    mesh = DeviceMesh(devices, options.train_mesh, "jax.train_mesh")
    if len(options.train_devices) % mesh.tensor_parts:
        raise PlatformError(
            f"Got jax.train_mesh={list(options.train_mesh)}, which splits matrix products over "
            f"{mesh.tensor_parts} devices, expected a divisor of {len(options.train_devices)}, the "
            "devices of each process: their rows of a batch would not be the same."
        )
    return mesh


def policy_mesh(platform: str, options: Config) -> DeviceMesh:
    """Arrange the devices that act, of this process alone; arguments as in `training_mesh`."""
    devices = _pick_devices(platform, options, "policy_devices")
    return DeviceMesh(devices, (-1, 1, 1), "jax.policy_devices")


def check_devices(platform: str, options: Config) -> None:
    """Check that the devices that act and learn are there; arguments and errors as above."""
    training_mesh(platform, options)
    policy_mesh(platform, options)


def from_device(tree: Any) -> Any:
    """Wait for a tree of device arrays and return copies of them on the host.

    The copies stay valid when the device buffers are reused. Of a batch that several processes have
    parts of, these are the rows of this process.
    """
    return jax.tree.map(lambda x: np.array(x), jax.device_get(jax.tree.map(own_part, tree)))


def own_part(value: Any) -> Any:
    """What this process has of an array that several processes share: all, or its rows."""
    if not isinstance(value, jax.Array) or value.is_fully_addressable:
        return value
    if value.is_fully_replicated:
        return value.addressable_data(0)
    shards = {shard.index[0].start or 0: shard.data for shard in value.addressable_shards}
    return np.concatenate([np.asarray(shards[start]) for start in sorted(shards)])


def _pick_devices(
    platform: str, options: Config, option: str, process: int | None = None
) -> list[jax.Device]:
    """Devices of a process, by default this one, with the indices that an option lists."""
    count = len(jax.local_devices(backend=platform))
    if options.expect_devices not in (0, count):
        raise PlatformError(
            f"Got jax.expect_devices={options.expect_devices}, but there are {count} {platform} "
            "devices; change the number or set it to 0 to take any."
        )
    devices, indices = jax.local_devices(process, platform), options[option]
    if any(index >= len(devices) for index in indices):
        raise PlatformError(
            f"Got jax.{option}={list(indices)}, but there are only {len(devices)} {platform} "
            f"devices; use indices below {len(devices)}."
        )
    return [devices[index] for index in indices]


def _grid(count: int, shape: Sequence[int], option: str) -> tuple[int, ...]:
    known = [size for size in shape if size > 0]
    rest = count // int(np.prod(known))
    grid = tuple(rest if size == -1 else size for size in shape)
    free = sum(size == -1 for size in shape)
    if len(shape) != len(AXES) or min(grid, default=0) < 1 or free > 1 or np.prod(grid) != count:
        raise PlatformError(
            f"Got {option}={list(shape)} for {count} devices, expected {len(AXES)} sizes (data, "
            f"fully sharded parameters, tensor), at most one of them -1, with a product of {count}."
        )
    return grid
