"""The way from command-line arguments to the runs that a script works on."""

import argparse
from collections.abc import Sequence
from dataclasses import replace

from curves.baselines import load_baselines
from curves.loading import load_runs
from curves.notes import Notes
from curves.origins import keep_origins_apart, note_duplicates
from curves.run import Run, run_order
from curves.selection import order_labels, rename_methods, select_methods, select_tasks


def selected_runs(
    paths: Sequence[str], arguments: argparse.Namespace, notes: Notes
) -> tuple[list[Run], list[str]]:
    """Load, filter and rename runs as the shared options say.

    Args:
      paths: Files and folders.
      arguments: Result of a parser from `curves.arguments.make_parser`.
      notes: Receives remarks about the data.

    Returns:
      The runs in an order that does not depend on the paths, and their labels in the order in
      which they are shown.

    Raises:
      ScoresError: Nothing was found or nothing is left.
    """
    aliases = load_baselines().aliases
    found = load_runs(paths, notes)
    runs = [replace(run, task=aliases.get(run.task, run.task)) for run in found]
    runs = keep_origins_apart(select_tasks(runs, arguments.tasks), notes)
    runs = select_methods(runs, arguments.methods, arguments.series)
    labels = order_labels(runs, arguments.methods)
    runs, labels = rename_methods(runs, labels, arguments.rename)
    note_duplicates(runs, notes)
    return sorted(runs, key=run_order), labels
