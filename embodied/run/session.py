"""What stands beside the loop of a script: stopping, lines about long waits, times, clean-up."""

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

from embodied.core.interfaces import Stream
from embodied.core.nonfinite import NonFiniteError, save_batch
from embodied.core.timer import Timer
from embodied.run.callbacks import NO_CALLBACKS, Callbacks
from embodied.run.heartbeat import Heartbeat
from embodied.run.stop import StopRequested, StopSignals

Part = TypeVar("Part")


@dataclasses.dataclass(frozen=True)
class Caller:
    """What has started a script.

    Attributes:
      callbacks: What to tell of the run.
      own_process: Whether the process is there for the script alone, so that a second Ctrl+C ends
        it.
    """

    callbacks: Callbacks = NO_CALLBACKS
    own_process: bool = True


#: The command line.
PROGRAM = Caller()


class Session:
    """The surroundings of one run of a script, from its set-up to its clean-up.

    Attributes:
      stop: Requests to stop.
      heartbeat: Prints phases of the set-up and what takes long.
      timer: Measures where the time goes.
      cleanup: Closes the parts, the last one first.
      callbacks: What to tell of the run.
      in_loop: Whether the set-up is over, so that there is something to save.
    """

    def __init__(
        self,
        stop: StopSignals,
        heartbeat: Heartbeat,
        cleanup: contextlib.ExitStack,
        callbacks: Callbacks,
    ) -> None:
        """Put the surroundings together; see `session`."""
        self.stop, self.heartbeat, self.cleanup = stop, heartbeat, cleanup
        self.callbacks = callbacks
        self.timer = Timer()
        self.in_loop = False
        self._main = threading.get_ident()

    def phase(self, name: str, note: str = "") -> contextlib.AbstractContextManager[None]:
        """Print when the body, a phase of the set-up, starts and how long it took."""
        return self.heartbeat.phase(name, note)

    @contextlib.contextmanager
    def loop(self, logdir: str) -> Iterator[None]:
        """Run what has something to save, in the body; keep the batch of an update that fails.

        Args:
          logdir: Where the batch is stored.
        """
        self.in_loop = True
        try:
            with self.stop.protected():
                yield
        except NonFiniteError as error:
            path = save_batch(error, Path(logdir))
            where = f"The batch of this update is in {path}. " if path else ""
            error.add_note(f"{where}The checkpoint before it is still there.")
            raise

    @contextlib.contextmanager
    def busy(self, activity: str, section: str) -> Iterator[None]:
        """Name and measure what the body does.

        Args:
          activity: What a line says if it takes long; nothing in other threads than the main one.
          section: Name of the time in the timer.
        """
        with self.timer.section(section), self._activity(activity):
            yield

    @contextlib.contextmanager
    def waiting(
        self, activity: str, section: str, detail: Callable[[], str] | None = None
    ) -> Iterator[None]:
        """Name and measure a wait, which a request to stop may end; see `busy`.

        Args:
          activity: What a line says if it takes long.
          section: Name of the time in the timer.
          detail: Returns what else to say.
        """
        leave = self.stop.waiting() if self._in_main_thread else contextlib.nullcontext()
        with self.timer.section(section), self._activity(activity, detail), leave:
            yield

    def watched(self, part: Part, **methods: tuple[str, str]) -> Part:
        """Wrap a part of the run, some of whose methods are `busy` with an activity and section."""
        return cast(Part, _Watched(self, part, methods))

    def waited(self, stream: Stream, detail: Callable[[], str]) -> Iterator[Any]:
        """Iterate over a stream; a wait for an element is a `waiting` one.

        Args:
          stream: Gives the elements.
          detail: Returns how much there is and how much is needed.
        """
        return _Waited(self, stream, detail)

    def _activity(
        self, name: str, detail: Callable[[], str] | None = None
    ) -> contextlib.AbstractContextManager[None]:
        if self._in_main_thread:
            return self.heartbeat.activity(name, detail)
        return contextlib.nullcontext()

    @property
    def _in_main_thread(self) -> bool:
        return threading.get_ident() == self._main


@contextlib.contextmanager
def session(caller: Caller = PROGRAM) -> Iterator[Session]:
    """Surround a script: set-up first, then `Session.loop`, at last the clean-up.

    Args:
      caller: What has started the script.

    Raises:
      SystemExit: After a signal, with the exit code.
    """
    heartbeat = Heartbeat()
    stop = StopSignals(doing=heartbeat.doing, own_process=caller.own_process)
    with stop, heartbeat, contextlib.ExitStack() as cleanup:
        here = Session(stop, heartbeat, cleanup, caller.callbacks)
        try:
            yield here
        except StopRequested:
            if not here.in_loop:
                print("Stopped during set-up, there is nothing new to save.", flush=True)
        finally:
            with stop.protected():
                cleanup.close()
    if stop.exit_code:
        raise SystemExit(stop.exit_code)


class _Watched:
    """Hands everything on to a part; some calls are named and measured."""

    def __init__(
        self, surroundings: Session, part: Any, methods: dict[str, tuple[str, str]]
    ) -> None:
        self._part = part
        for name, (activity, section) in methods.items():
            setattr(self, name, _watch(surroundings, getattr(part, name), activity, section))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)

    def __len__(self) -> int:
        return len(self._part)


def _watch(
    surroundings: Session, function: Callable[..., Any], activity: str, section: str
) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with surroundings.busy(activity, section):
            return function(*args, **kwargs)

    return call


class _Waited:
    """Iterates over a stream."""

    def __init__(self, surroundings: Session, stream: Stream, detail: Callable[[], str]) -> None:
        self._surroundings, self._stream, self._detail = surroundings, stream, detail

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        with self._surroundings.waiting("waiting for a batch", "batch", self._detail):
            return next(self._stream)
