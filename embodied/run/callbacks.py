"""What is told to a program that has started a run, and how that stops the run."""

from collections.abc import Sequence
from typing import Any

from embodied.core.config import ConfigError

#: Methods that a callback may have.
EVENTS = ("on_transition", "on_update", "on_log", "on_save")


class StopRun(Exception):
    """Raised by a callback to end the run, which is saved first; returning True does the same."""


class Callbacks:
    """Objects that are told what happens in a run.

    - `on_transition(step, transition, worker)`: a step of an environment was stored and the updates
      were made that it has paid for. Arrays must not be changed.
    - `on_update(step, update)`: an update was made, the `update`-th of the run.
    - `on_log(step, metrics)`: metrics were written; the scalars among them by name.
    - `on_save(step, path)`: a checkpoint is complete, in the folder `path`.

    `step` counts steps of the agent. Each method may return True or raise `StopRun` to end the run.
    Of an object, those are called that it has; a function is called like `on_log`.
    """

    def __init__(self, callbacks: Sequence[Any] = ()) -> None:
        """Look the methods up.

        Args:
          callbacks: Objects with some of the methods, or functions.

        Raises:
          ConfigError: One has none of the methods and cannot be called.
        """
        self._methods: dict[str, list[Any]] = {event: [] for event in EVENTS}
        for callback in callbacks:
            self._add(callback)

    def __bool__(self) -> bool:
        return any(self._methods.values())

    def wants(self, event: str) -> bool:
        """Whether any callback is told of an event of `EVENTS`."""
        return bool(self._methods[event])

    def tell(self, event: str, *args: Any) -> bool:
        """Tell of an event.

        Returns:
          Whether the run has to stop.

        Raises:
          Exception: What a callback raises, other than `StopRun`.
        """
        stop = False
        for method in self._methods[event]:
            try:
                stop |= method(*args) is True
            except StopRun:
                stop = True
        return stop

    def _add(self, callback: Any) -> None:
        found = [event for event in EVENTS if callable(getattr(callback, event, None))]
        wrong = [name for name in dir(callback) if name.startswith("on_") and name not in EVENTS]
        if isinstance(callback, type) or wrong or not (found or callable(callback)):
            what = f"{callback!r}, which has {wrong[0]}," if wrong else repr(callback)
            raise ConfigError(
                f"Got {what} as a callback, expected an object that has one of "
                f"{', '.join(EVENTS)}, or a function of step and metrics."
            )
        for event in found:
            self._methods[event].append(getattr(callback, event))
        if not found:
            self._methods["on_log"].append(callback)


#: Nobody is told.
NO_CALLBACKS = Callbacks()
