"""Ends a run on request: SIGINT (Ctrl+C) and SIGTERM let it save first."""

import contextlib
import enum
import os
import signal
import socket
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequested(BaseException):
    """Raised where the main thread is when the run has to stop.

    Like KeyboardInterrupt it is no Exception, so that code which handles errors lets it pass.
    """


class Place(enum.Enum):
    """Where the main thread is, which decides what a request to stop does.

    | place | at once | when the grace of 5 s is over |
    | --- | --- | --- |
    | `SETUP`: nothing to save | `StopRequested` is raised | raised again if dropped, else the end |
    | `LOOP`: in a step | `requested` is set, the loop ends before its next step | the same |
    | `WAIT`: for data | `requested` is set, as most waits are short | `StopRequested` is raised |

    Python drops what is raised in a destructor. A wait that begins after a request raises at once.
    The end is that of the process: native code, such as a compiler, does not let its thread go.
    """

    SETUP = enum.auto()
    LOOP = enum.auto()
    WAIT = enum.auto()


class StopSignals:
    """Turns the first signal into a request to stop, see `Place` for what happens to it.

    A thread says so at once, also while the main thread is in native code. A second SIGINT ends the
    process at once; where the process belongs to another program, such as a notebook, it raises
    KeyboardInterrupt instead, and nothing ends the process. Signals are left alone outside the main
    thread.

    Attributes:
      requested: Whether a signal has come.
      deferred: Whether requests are only noted, wherever the main thread is.
      exit_code: Exit code that says so: 130 for SIGINT, 143 for SIGTERM, 0 for none.
    """

    def __init__(
        self, grace: float = 5.0, doing: Callable[[], str] = str, own_process: bool = True
    ) -> None:
        """Create the context manager.

        Args:
          grace: Seconds that a wait, or what is not left during set-up, may go on.
          doing: Returns what the main thread is doing, for the line about a request.
          own_process: Whether the process may be ended.
        """
        self._own_process = own_process
        self.requested = False
        self.exit_code = 0
        self.deferred = False
        self._grace = grace
        self._doing = doing
        self._announced = threading.Event()
        self._place = Place.SETUP
        self._nothing_to_save = True
        self._overdue = False
        self._swallowed = False
        self._cleanup = contextlib.ExitStack()
        self._previous_hook = sys.unraisablehook

    def __enter__(self) -> Self:
        """Install the handlers."""
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in _SIGNALS:
            previous = signal.signal(number, self._handle)
            self._cleanup.callback(signal.signal, number, previous)
        self._previous_hook = sys.unraisablehook
        sys.unraisablehook = self._handle_unraisable
        self._cleanup.callback(setattr, sys, "unraisablehook", self._previous_hook)
        # Python runs handlers between byte codes only. The pipe tells a thread of a signal also
        # while the main thread is in native code.
        receiver, sender = socket.socketpair()
        sender.setblocking(False)
        thread = threading.Thread(
            target=self._watch, args=(receiver,), name="stop-signals", daemon=True
        )
        thread.start()
        previous_sender = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        self._cleanup.callback(thread.join)
        self._cleanup.callback(sender.close)
        self._cleanup.callback(signal.set_wakeup_fd, previous_sender)
        return self

    def __exit__(self, *exception: object) -> None:
        """Restore the handlers."""
        self._place = Place.LOOP
        self._cleanup.close()

    def check(self) -> None:
        """Raise `StopRequested` if a signal has come."""
        if self.stopping:
            raise StopRequested

    def request(self) -> None:
        """Ask for a stop without a signal, which is no reason for an exit code; from any thread."""
        self.requested = True

    @property
    def stopping(self) -> bool:
        """Whether to stop now; never where several processes train, which agree on the step."""
        return self.requested and not self.deferred

    @contextlib.contextmanager
    def protected(self) -> Iterator[None]:
        """Be in the loop: the body finishes, and from now on there is something to save."""
        self._nothing_to_save = False
        with self._at(Place.LOOP):
            yield

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Wait in the loop: the body is left if it takes long, or not entered any more."""
        with self._at(Place.WAIT):
            self.check()
            yield

    @contextlib.contextmanager
    def _at(self, place: Place) -> Iterator[None]:
        previous, self._place = self._place, place
        try:
            yield
        finally:
            self._place = previous

    def _handle(self, number: int, frame: types.FrameType | None) -> None:
        """Handle a signal in the main thread, or what `_watch` sends when the grace is over."""
        leave = False
        if not self.exit_code:
            self.requested = True
            self.exit_code = 128 + number
            self._announced.wait(1)  # The line about it comes before those that follow.
            leave = self._place is Place.SETUP
        elif number == signal.SIGINT and not self._own_process:
            raise KeyboardInterrupt
        elif self._overdue:
            again = self._place is Place.SETUP and self._swallowed
            self._swallowed = False
            leave = again or self._place is Place.WAIT
        if leave and not self.deferred:
            raise StopRequested

    def _handle_unraisable(self, unraisable: "sys.UnraisableHookArgs") -> None:
        """Note that the request was raised in a destructor or the like, which nothing leaves."""
        if unraisable.exc_type is StopRequested:
            self._swallowed = True
        else:
            self._previous_hook(unraisable)

    def _watch(self, receiver: socket.socket) -> None:
        """Body of the thread: see every signal at once, act where the handler cannot."""
        first = 0
        with receiver:
            while True:
                try:
                    numbers = receiver.recv(64)
                except TimeoutError:
                    receiver.settimeout(self._grace if self._nothing_to_save else None)
                    self._end_grace(first)
                    continue
                if not numbers:
                    return
                for number in numbers:
                    if first and number == signal.SIGINT and self._own_process:
                        _exit_now(number, "without saving")
                    if number in _SIGNALS and not first:
                        first = number
                        self._announce(number)
                        receiver.settimeout(self._grace)

    def _announce(self, number: int) -> None:
        line = f"Got {signal.Signals(number).name}, stopping."
        if not self._nothing_to_save:
            doing = self._doing()
            line += f" First comes {doing}, then" if doing else " First,"
            line += " everything is saved."
            if number == signal.SIGINT:
                line += " Another Ctrl+C ends at once and saves nothing."
        print(line, flush=True)
        self._announced.set()

    def _end_grace(self, number: int) -> None:
        if self._nothing_to_save and not self._swallowed and self._own_process:
            _exit_now(number, "as there is nothing new to save")
        self._overdue = True
        # Wakes a wait. Not SIGINT, of which a second one ends everything.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


def _exit_now(number: int, reason: str) -> None:
    os.write(2, f"Ending at once, {reason}.\n".encode())
    os._exit(128 + number)
