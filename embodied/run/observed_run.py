"""A training run that tells callbacks what happens."""

from collections.abc import Iterator, Sequence
from typing import Any

from embodied.core.driver import Transition
from embodied.core.writers.writer import Record, Writer
from embodied.run.run import Run


class ObservedRun(Run):
    """Does what a run does, and tells the callbacks of its session.

    If a callback raises an error, nothing is told any more; the run stops, is saved, and raises the
    error at its end.
    """

    def __init__(self, *parts: Any) -> None:
        """Put the parts together, see `Run`."""
        super().__init__(*parts)
        self._newest = NewestScalars()
        self.logger.attach(self._newest)
        self._error: Exception | None = None

    def transitions(self) -> Iterator[tuple[Transition, int]]:
        """Act, see `Run`; a transition is told of when the loop is done with it."""
        for transition, worker in super().transitions():
            yield transition, worker
            self._tell("on_transition", transition, worker)

    def updates(self, step: int) -> Iterator[int]:
        """Iterate over the updates that are due, see `Run`; each is told of when it is made."""
        for number in super().updates(step):
            yield number
            self._tell("on_update", number + 1)

    def log(self) -> None:
        """Write all metrics, and tell the scalars."""
        super().log()
        self._tell("on_log", dict(self._newest.values))

    def save(self, score: float | None = None) -> None:
        """Start to write a checkpoint; where it is told of, wait until it is complete."""
        super().save(score)
        if self.session.callbacks.wants("on_save") and self.checkpoint.wait():
            snapshot = self.checkpoint.peek()
            self._tell("on_save", str(snapshot.path) if snapshot else "")

    def finish(self) -> None:
        """Save and log a last time.

        Raises:
          Exception: What a callback has raised.
        """
        super().finish()
        if self._error is not None:
            raise self._error

    def _tell(self, event: str, *args: Any) -> None:
        if self._error is not None:
            return
        try:
            stop = self.session.callbacks.tell(event, int(self.step), *args)
        except Exception as error:  # Whatever the user's code raises.
            self._error, stop = error, True
        if stop:
            self.session.stop.request()


class NewestScalars(Writer):
    """Keeps the scalars that were written last.

    Attributes:
      values: The newest value of each, by name.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self.values: dict[str, float] = {}

    def __call__(self, records: Sequence[Record]) -> None:
        """Replace what there is."""
        self.values = {
            record.key: float(record.value) for record in records if record.kind == "scalar"
        }
