"""Published random and expert scores, and reference tables, from `scores/baselines.yaml`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML

DEFAULT_PATH = Path(__file__).parents[1] / "baselines.yaml"


@dataclass(frozen=True)
class Suite:
    """How the scores of a suite are summarised.

    Attributes:
      title: Name for people.
      expert: What a normalised score of 1 means, such as `gamer`.
      aggregates: Names of the aggregate panels shown by default.
      scores: Task -> (random score, expert score); empty where the suite has none.
    """

    title: str
    expert: str
    aggregates: tuple[str, ...]
    scores: Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Reference:
    """A published table that own scores can be set beside.

    Attributes:
      title: Column title.
      note: Where the numbers come from, one sentence.
      scores: Task -> mean score.
      summary: Method -> (mean over tasks, median over tasks) of the other methods there.
    """

    title: str
    note: str
    scores: Mapping[str, float]
    summary: Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Baselines:
    """Contents of the baselines file; `aliases` maps other spellings of tasks to the names here."""

    suites: Mapping[str, Suite]
    references: Mapping[str, Reference]
    aliases: Mapping[str, str]

    def suite(self, name: str) -> Suite:
        """Return a suite by its task prefix; unknown ones get plain aggregates."""
        default = Suite(name.capitalize(), "", ("mean", "median", "iqm"), {})
        return self.suites.get(name, default)


def load_baselines(path: Path = DEFAULT_PATH) -> Baselines:
    """Read the baselines file that lies beside the scripts."""
    content = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    suites = {
        name: Suite(
            title=entry["title"],
            expert=entry.get("expert", ""),
            aggregates=tuple(entry["aggregates"]),
            scores={task: (pair[0], pair[1]) for task, pair in entry.get("scores", {}).items()},
        )
        for name, entry in content["suites"].items()
    }
    references = {
        name: Reference(
            title=entry["title"],
            note=entry["note"],
            scores=entry["scores"],
            summary={key: (pair[0], pair[1]) for key, pair in entry["summary"].items()},
        )
        for name, entry in content["references"].items()
    }
    return Baselines(suites, references, content["aliases"])
