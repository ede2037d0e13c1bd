"""When inserting and sampling have to wait for each other."""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

LOGGER = logging.getLogger(__name__)


class Limiter(ABC):
    """Makes callers of `insert` and `sample` wait until the rule of the subclass lets them go on.

    Thread-safe. Waiting is woken by the event that it waits for.

    Attributes:
        inserts: Number of inserts so far.
        samples: Number of samples so far.
    """

    def __init__(self, name: str = "replay", message_seconds: float = 30.0) -> None:
        """Create a limiter that has seen nothing yet.

        Args:
            name: For messages.
            message_seconds: After how long a wait is reported, and how often.
        """
        self.inserts = 0
        self.samples = 0
        self._name = name
        self._message_seconds = message_seconds
        self._changed = threading.Condition()
        self._closed = False

    @abstractmethod
    def reason_against_insert(self, inserts: int, samples: int) -> str | None:
        """Why an insert has to wait, with the numbers; None if it may go on."""

    @abstractmethod
    def reason_against_sample(self, inserts: int, samples: int) -> str | None:
        """Why a sample has to wait, with the numbers; None if it may go on."""

    def want_insert(self) -> bool:
        """Whether an insert would go on at once."""
        with self._changed:
            return self.reason_against_insert(self.inserts, self.samples) is None

    def want_sample(self) -> bool:
        """Whether a sample would go on at once."""
        with self._changed:
            return self.reason_against_sample(self.inserts, self.samples) is None

    def insert(self, amount: int = 1, timeout: float | None = None) -> bool:
        """Wait until inserting is allowed and count it.

        Args:
            amount: Items that are inserted.
            timeout: Longest wait in seconds, without limit if None.

        Returns:
            False if the time was up or the limiter was closed; nothing is counted then.
        """
        with self._changed:
            if not self._wait(self.reason_against_insert, "Inserting into", timeout):
                return False
            self.inserts += amount
            self._changed.notify_all()
            return True

    def sample(self, amount: int = 1, timeout: float | None = None) -> bool:
        """Wait until sampling is allowed and count it.

        Args:
            amount: Items that are drawn.
            timeout: Longest wait in seconds, without limit if None.

        Returns:
            False if the time was up or the limiter was closed; nothing is counted then.
        """
        with self._changed:
            if not self._wait(self.reason_against_sample, "Sampling from", timeout):
                return False
            self.samples += amount
            self._changed.notify_all()
            return True

    def close(self) -> None:
        """Let every waiting and later call return False."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def save(self) -> dict[str, Any]:
        """Return the counts."""
        with self._changed:
            return {"inserts": self.inserts, "samples": self.samples}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore what `save` returned."""
        with self._changed:
            self.inserts = int(state["inserts"])
            self.samples = int(state["samples"])
            self._changed.notify_all()

    def _wait(
        self, reason: Callable[[int, int], str | None], what: str, timeout: float | None
    ) -> bool:
        begin = time.monotonic()
        report = begin + self._message_seconds
        deadline = None if timeout is None else begin + timeout
        while not self._closed:
            problem = reason(self.inserts, self.samples)
            if problem is None:
                return True
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                return False
            if now >= report:
                waited = round(now - begin, 1)
                LOGGER.warning(
                    "%s the %s has waited for %s s: %s", what, self._name, waited, problem
                )
                report = now + self._message_seconds
            self._changed.wait(min(report, deadline or report) - now)
        return False


class MinSize(Limiter):
    """Sampling waits until enough was inserted; inserting never waits."""

    def __init__(self, minimum: int, name: str = "replay", message_seconds: float = 30.0) -> None:
        """Create a limiter.

        Args:
            minimum: Inserts before the first sample, at least 1.
            name: For messages.
            message_seconds: After how long a wait is reported, and how often.

        Raises:
            ValueError: If the minimum is not positive.
        """
        super().__init__(name, message_seconds)
        if minimum < 1:
            raise ValueError(f"Got minimum {minimum}, expected at least 1.")
        self.minimum = minimum

    def reason_against_insert(self, inserts: int, samples: int) -> str | None:
        """See base class."""
        return None

    def reason_against_sample(self, inserts: int, samples: int) -> str | None:
        """See base class."""
        if inserts >= self.minimum:
            return None
        return f"there are {inserts} items and {self.minimum} are needed."


class SamplesPerInsert(Limiter):
    """Holds the number of samples near a fixed number per insert.

    What inserts beyond the first `minsize` allow, minus what was sampled, is the balance. It moves
    between `-tolerance`, where sampling waits, and `tolerance`, where inserting waits. At any
    time at least one of them goes on.
    """

    def __init__(
        self,
        samples_per_insert: float,
        tolerance: float,
        minsize: int = 1,
        name: str = "replay",
        message_seconds: float = 30.0,
    ) -> None:
        """Create a limiter.

        Args:
            samples_per_insert: Samples that an insert allows.
            tolerance: How many samples either side may be ahead of the other.
            minsize: Inserts before the first sample; they do not count towards the balance.
            name: For messages.
            message_seconds: After how long a wait is reported, and how often.

        Raises:
            ValueError: If a number is out of range.
        """
        super().__init__(name, message_seconds)
        if samples_per_insert < 0 or not tolerance > 0 or minsize < 1:
            raise ValueError(
                f"Got samples_per_insert {samples_per_insert}, tolerance {tolerance}, minsize "
                f"{minsize}, expected at least 0, above 0 and at least 1."
            )
        self.samples_per_insert = samples_per_insert
        self.tolerance = tolerance
        self.minsize = minsize

    def reason_against_insert(self, inserts: int, samples: int) -> str | None:
        """See base class."""
        ahead = self._balance(inserts, samples)
        if ahead < self.tolerance:
            return None
        return (
            f"{inserts} inserts allow {ahead:.1f} more samples than the {samples} that were drawn, "
            f"and at most {self.tolerance:g} may be outstanding; the learner is behind."
        )

    def reason_against_sample(self, inserts: int, samples: int) -> str | None:
        """See base class."""
        if inserts < self.minsize:
            return f"there are {inserts} items and {self.minsize} are needed."
        behind = -self._balance(inserts, samples)
        if behind < self.tolerance:
            return None
        return (
            f"{samples} samples are {behind:.1f} more than {inserts} inserts allow, and at most "
            f"{self.tolerance:g} may be ahead; the collectors are behind."
        )

    def _balance(self, inserts: int, samples: int) -> float:
        return self.samples_per_insert * (inserts - self.minsize) - samples
