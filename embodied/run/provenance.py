"""What is needed to repeat a run, besides its options."""

import json
import platform
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from embodied.core.snapshot import package_versions


def append_start(folder: Path, command: Sequence[str], seed: int, source: Path) -> None:
    """Append a line of JSON about this start of a run to `starts.jsonl` in its folder.

    Args:
      folder: The folder of the run.
      command: The command line.
      seed: Seed of the run.
      source: A folder of the program, whose revision is noted if it is in a git repository.
    """
    line = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": list(command),
        "seed": seed,
        "versions": package_versions(),
        "revision": revision(source),
        "platform": platform.platform(),
        "host": socket.gethostname(),
    }
    with (folder / "starts.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def revision(folder: Path) -> str:
    """Commit that the files of a folder are from, followed by `+` if they differ; '' if unknown."""
    commit = _git(folder, "rev-parse", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no", ".")
    return commit + "+" if commit and changed else commit


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
