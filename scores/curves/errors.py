"""The one exception that the score scripts turn into a sentence and exit code 2."""


class ScoresError(ValueError):
    """A mistake at the user's side: its message says what was got and what to do."""
