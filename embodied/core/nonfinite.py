"""The error of an update whose results are not finite numbers."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np


class NonFiniteError(FloatingPointError):
    """A loss or gradient is NaN or infinite.

    Attributes:
      update: Number of the update, counted from 1 over all restarts.
      names: What is not finite, the names of loss terms first.
      batch: What the update has learned from, arrays by key; empty if it is not known any more.
    """

    def __init__(
        self, update: int, names: Sequence[str], batch: Mapping[str, np.ndarray], hint: str = ""
    ) -> None:
        """Create the error; `hint` says what can be done."""
        self.update, self.names, self.batch = update, list(names), dict(batch)
        found = ", ".join(f"'{name}'" for name in names)
        super().__init__(f"Update {update:,} has results that are not finite: {found}. {hint}")


def save_batch(error: NonFiniteError, folder: Path) -> Path | None:
    """Write the batch of an error, for a report; return the file, None if there is no batch.

    The file is a NumPy archive. Precisions that NumPy lacks become float32.
    """
    if not error.batch:
        return None
    path = folder / f"nonfinite-update{error.update:010d}.npz"
    arrays = {
        key: value.astype(np.float32) if value.dtype.kind == "V" else value
        for key, value in error.batch.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    return path
