"""What the scripts tell their user: remarks on the data, and mistakes."""

from typing import TextIO


class ScoresError(ValueError):
    """A mistake at the user's side: its message says what was got and what to do.

    The scripts print it as one sentence and exit with code 2.
    """


class Notes:
    """Remarks that a user should know of, without repetitions, shown once at the end."""

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}

    def add(self, text: str) -> None:
        """Remember a remark; the same text is kept once.

        Args:
          text: One line, starting with what it is about (a file, a method, a task).
        """
        self._texts.setdefault(text, None)

    @property
    def texts(self) -> tuple[str, ...]:
        """All remarks in the order in which they were made."""
        return tuple(self._texts)

    def show(self, stream: TextIO, limit: int = 20) -> None:
        """Print the remarks, one `note: ...` line each.

        Args:
          stream: Where to print, usually standard error.
          limit: Number of remarks after which the rest is only counted; 0 shows all.
        """
        shown = self.texts if limit == 0 else self.texts[:limit]
        for text in shown:
            print(f"note: {text}", file=stream)
        if left := len(self.texts) - len(shown):
            print(f"note: ... and {left} more (--all-notes shows them)", file=stream)
