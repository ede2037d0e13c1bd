"""Errors that a user can cause with a task name, an option or an environment of their own."""

from __future__ import annotations


class EnvError(ValueError):
    """Base of all errors here; the command line turns it into one sentence and exit code 2."""


class UnknownTask(EnvError):
    """The suite or the task does not exist."""


class UnknownOption(EnvError):
    """The environment's constructor takes no such keyword."""


class MissingExtra(EnvError):
    """The suite exists, but a package that it needs is not installed."""


class UnsupportedSpace(EnvError):
    """An observation or action of a foreign environment has no counterpart in `Space`."""


class RenderingUnavailable(EnvError):
    """Pictures were asked for, and no OpenGL backend works here."""
