"""How many repetitions, such as gradient steps, each step pays for."""

from typing import Any, SupportsInt


class Ratio:
    """Turns a growing step into a number of repetitions at a fixed rate (design, section 3).

    The first call returns 1 whatever the step, so that time spent waiting for data is not paid
    back. Later calls return the whole repetitions due since then and carry the rest over. A ratio
    of 0 always returns 0, a negative one always 1.
    """

    def __init__(self, ratio: float) -> None:
        self._ratio = float(ratio)
        self._previous: float | None = None
        self._last_step: int | None = None

    def __call__(self, step: SupportsInt) -> int:
        """Return the repetitions that are due at a step.

        Args:
            step: Current step, at least that of the previous call.

        Raises:
            ValueError: If the step goes backwards.
        """
        step = int(step)
        if self._last_step is not None and step < self._last_step:
            message = (
                f"Got step {step} after step {self._last_step}, expected it not to go backwards"
            )
            raise ValueError(f"{message}: load the state of this ratio together with the step.")
        self._last_step = step
        if self._ratio <= 0:
            return 1 if self._ratio < 0 else 0
        if self._previous is None:
            self._previous = step
            return 1
        repeats = int((step - self._previous) * self._ratio)
        self._previous += repeats / self._ratio
        return repeats

    def save(self) -> dict[str, Any]:
        """Return the position, so that a resumed run neither repeats nor skips."""
        return {"previous": self._previous, "last_step": self._last_step}

    def load(self, state: dict[str, Any]) -> None:
        """Continue at a saved position."""
        self._previous = None if state["previous"] is None else float(state["previous"])
        self._last_step = None if state["last_step"] is None else int(state["last_step"])
