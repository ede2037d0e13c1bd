"""Ends a run on request: SIGINT (Ctrl-C) and SIGTERM let it save first."""

import contextlib
import enum
import os
import signal
import socket
import sys
import threading
import types
from collections.abc import Iterator
from typing import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequested(BaseException):
    """Raised where the run is when it has to stop.

    Like KeyboardInterrupt it is no Exception, so that code which handles errors lets it pass.
    """


class _When(enum.Enum):
    """When the main thread may be left for a signal."""

    AT_ONCE = enum.auto()
    LATE = enum.auto()
    NEVER = enum.auto()


class StopSignals:
    """Turns the first signal into a request to stop.

    During set-up, the main thread may be left at any point, and the request is raised there as
    `StopRequested`. In the body of `protected`, it is only noted, for `check` to raise at a point
    where everything belongs together. So it is in that of `interruptible` at first, since most
    waits are short; one that is not over after the grace is left. A second SIGINT ends the process
    at once. So does the first signal when the main thread does not come back from native code such
    as a compiler during set-up, when there is nothing to save yet.

    Signals are left alone outside the main thread.

    Attributes:
      requested: Whether a signal has come.
      deferred: Whether requests are only noted, for a loop that looks at `requested` by itself.
      exit_code: Exit code that says so: 130 for SIGINT, 143 for SIGTERM, 0 for none.
    """

    def __init__(self, grace: float = 5.0) -> None:
        """Create the context manager.

        Args:
          grace: Seconds that a wait, or native code during set-up, may go on.
        """
        self.requested = False
        self.exit_code = 0
        self.deferred = False
        self._grace = grace
        self._when = _When.AT_ONCE
        self._late = False
        self._swallowed = False
        self._expendable = True
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
        self._when = _When.NEVER
        self._cleanup.close()

    def check(self) -> None:
        """Raise `StopRequested` if a signal has come."""
        if self.requested and not self.deferred:
            raise StopRequested

    @contextlib.contextmanager
    def protected(self) -> Iterator[None]:
        """Let the body finish; from now on there is something to save."""
        self._expendable = False
        with self._set(_When.NEVER):
            yield

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Allow the body to be left at any point if it takes long, because it waits."""
        with self._set(_When.LATE):
            self.check()
            yield

    @contextlib.contextmanager
    def _set(self, when: _When) -> Iterator[None]:
        previous, self._when = self._when, when
        try:
            yield
        finally:
            self._when = previous

    def _handle(self, number: int, frame: types.FrameType | None) -> None:
        if not self.requested:
            self.requested = True
            self.exit_code = 128 + number
            print(f"Got {signal.Signals(number).name}, stopping.", flush=True)
            leave = self._when is _When.AT_ONCE
        else:
            again = self._when is _When.AT_ONCE and self._swallowed
            leave = self._late and (again or self._when is _When.LATE)
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
                    if self._expendable and not self.requested:
                        _exit_now(first)
                    receiver.settimeout(None)
                    self._late = True
                    # Wakes a wait. Not SIGINT, of which a second one ends everything.
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
                    continue
                if not numbers:
                    return
                for number in numbers:
                    if first and number == signal.SIGINT:
                        _exit_now(number)
                    if number in _SIGNALS and not first:
                        first = number
                        receiver.settimeout(self._grace)


def _exit_now(number: int) -> None:
    os.write(2, b"Ending at once, without saving.\n")
    os._exit(128 + number)
