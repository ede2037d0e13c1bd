"""Parts of a run whose state is saved in another way than they offer."""

from embodied.core.checkpoint import Deferred
from embodied.core.driver import Driver
from embodied.core.interfaces import State
from embodied.core.replay.replay import Replay


class ReplayState:
    """The replay, whose files are large and therefore written beside the run."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay

    def save(self) -> Deferred:
        """Return the state, and what writes the chunks."""
        return Deferred(*self._replay.take())

    def load(self, state: State) -> None:
        """Continue with the saved items."""
        self._replay.load(state)


class DriverState:
    """Position of the driver, which is loaded before there is a driver."""

    def __init__(self) -> None:
        self._driver: Driver | None = None
        self._loaded: State = None

    def attach(self, driver: Driver) -> None:
        """Give the loaded position to the driver and take over from there."""
        self._driver = driver
        if self._loaded is not None and not driver.load(self._loaded):
            print("Every environment begins a new episode.", flush=True)
        self._loaded = None

    def save(self) -> State:
        """Return the position."""
        return self._loaded if self._driver is None else self._driver.save()

    def load(self, state: State) -> None:
        """Keep the position until there is a driver."""
        self._loaded = state
