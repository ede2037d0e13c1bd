"""The commands of the program: the first word of the command line."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence

from embodied.core.config import ConfigError
from embodied.core.suggest import hint

DEFAULT = "train"


@dataclasses.dataclass(frozen=True)
class Command:
    """A command.

    Attributes:
      target: The function that runs it, as `module:function`; it takes the words after the command
        and returns an exit code, or None for 0. The module is imported when it is needed.
      about: What the command does, for `--help`.
    """

    target: str
    about: str

    def load(self) -> Callable[[Sequence[str]], int | None]:
        """Import the function."""
        module, _, name = self.target.partition(":")
        function: Callable[[Sequence[str]], int | None] = getattr(
            importlib.import_module(module), name
        )
        return function


#: Another command is one more line here.
COMMANDS: Mapping[str, Command] = {
    "train": Command("dreamerv3.main:train", "Train, or what else --script names; the default."),
    "plot": Command("scores.plot:main", "Draw score curves of runs and of score files."),
    "table": Command("scores.table:main", "Print a table of final scores."),
    "view": Command("scores.view:main", "List what runs and score files hold."),
    "check-env": Command("embodied.envs.check:main", "Step an environment and report its faults."),
    "doctor": Command("dreamerv3.cli.doctor:main", "Check whether this machine can run --script."),
    "replay": Command("embodied.core.replay.inspect:main", "Inspect or export stored episodes."),
}


def split(argv: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Separate the command, or the default one, from the words after it.

    Raises:
      ConfigError: If the first word is neither a command nor a flag.
    """
    if not argv or argv[0].startswith("-"):
        return DEFAULT, argv
    if argv[0] not in COMMANDS:
        raise ConfigError(
            f"Got '{argv[0]}', expected a command or a flag such as --name value."
            f"{hint(argv[0], COMMANDS)} The commands are: {', '.join(COMMANDS)}."
        )
    return argv[0], argv[1:]
