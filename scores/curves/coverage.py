"""Which methods can be compared over a whole suite."""

from collections.abc import Mapping, Sequence

from curves.baselines import Suite
from curves.notes import Notes
from curves.run import natural_key


def comparable(
    tasks_of: Mapping[str, set[str]], suite_name: str, notes: Notes
) -> tuple[list[str], list[str]]:
    """Choose the tasks that aggregates cover and the methods that have all of them.

    Averages over different task sets do not compare, so the tasks are those of the method that
    has the most, and methods that lack some of them are left out of the aggregates.

    Args:
      tasks_of: Label -> tasks with scores, in the order of the figure.
      suite_name: What the notes name.
      notes: Receives a remark for each method that is left out.

    Returns:
      Tasks in natural order and labels in the given order; no tasks where there are fewer
      than two, because then there is nothing to aggregate.
    """
    tasks = max(tasks_of.values(), key=len, default=set())
    if len(tasks) < 2:
        return [], []
    labels = []
    for label, found in tasks_of.items():
        if found >= tasks:
            labels.append(label)
        else:
            notes.add(
                f"{label}: has {len(found & tasks)} of the {len(tasks)} {suite_name} tasks, so it "
                "is not part of the aggregates"
            )
    return sorted(tasks, key=natural_key), labels


def with_baselines(tasks: Sequence[str], suite: Suite, notes: Notes) -> list[str]:
    """Keep the tasks that have a random and an expert score, with a remark on the others."""
    known = [task for task in tasks if task in suite.scores]
    if lacking := [task for task in tasks if task not in suite.scores]:
        notes.add(f"no random and expert score, left out of normalised means: {lacking}")
    return known
