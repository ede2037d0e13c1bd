"""Reading `*.jsonl` logs that may be cut or damaged."""

import json
from pathlib import Path

from curves.notes import Notes

Record = dict[str, object]


def read_jsonl(path: Path, notes: Notes) -> list[Record]:
    """Read one JSON object per line and skip what cannot be read.

    Args:
      path: The file; a run that is killed while writing leaves its last line cut.
      notes: Receives a remark for a cut last line and one for other unreadable lines.

    Returns:
      The readable objects in file order.
    """
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    records: list[Record] = []
    damaged = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if isinstance(record, dict):
            records.append(record)
        elif number == len(lines):
            notes.add(f"{path}: the last line is cut and was skipped")
        else:
            damaged += 1
    if damaged:
        notes.add(f"{path}: {damaged} unreadable lines were skipped")
    return records
