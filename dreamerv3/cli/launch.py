"""From a checked config to a run: the same from the command line and from Python."""

from __future__ import annotations

from dreamerv3.cli import factories, scripts
from dreamerv3.cli.next_steps import announced
from dreamerv3.cli.run_folder import claimed
from embodied.core.config import Config, ConfigError
from embodied.envs.errors import EnvError
from embodied.jax.platform import PlatformError, describe_platform, join_hosts, prepare_process
from embodied.jax.sharding import check_devices
from embodied.run.failures import explained
from embodied.run.folder_lock import FolderInUseError
from embodied.run.session import PROGRAM, Caller

#: Mistakes of the user, which a sentence explains; the folder of the run is left as it was.
REFUSALS = (ConfigError, EnvError, FolderInUseError, PlatformError)


def launch(config: Config, caller: Caller = PROGRAM) -> None:
    """Prepare the process and run the script that the config names, to its end.

    Args:
      config: The whole config, as `command_line.parse` returns it.
      caller: What starts the script.

    Raises:
      SystemExit: After a signal, with its exit code; with 1 if an environment fails.
      ConfigError, EnvError, FolderInUseError, PlatformError: If it cannot be started.
    """
    join_hosts(config.jax.coordinator_address, config.replica, config.replicas)
    platform = prepare_process(config.jax)
    print(describe_platform(platform.name, config.jax.platform), flush=True)
    factories.check_env(config)
    check_devices(platform.name, config.jax)
    with claimed(config), explained(config.logdir), announced(config):
        scripts.start(config, caller)
